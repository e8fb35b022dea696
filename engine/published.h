// SPDX-License-Identifier: MIT
#pragma once

// What a process shows the others read-only: its memory keys, the state of its queue pairs and its recent
// errors.
//
// One writer, many readers in other processes. Records that change are sequence locked: odd while being
// written; readers copy the record between two equal even values. The area is sparse: only touched pages cost
// memory.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbatim::engine {

inline constexpr uint32_t kKeysMax = 1u << 22;   ///< memory keys of one process; index 0 is never used
inline constexpr uint32_t kQpBlock = 1u << 14;   ///< queue pairs that one slot's number space holds
inline constexpr uint32_t kQpBlocksMax = 8;      ///< slots one process may hold
inline constexpr uint32_t kReasonsMax = 256;     ///< error reasons kept
inline constexpr uint32_t kShownMax = 1u << 14;  ///< objects of commands that are shown
inline constexpr uint32_t kPortsShown = 16;      ///< devices whose ports are counted

/// A queue pair number: process slot in bits 23..14, index in bits 13..0.
inline constexpr uint32_t qpn_slot(uint32_t qpn) { return (qpn >> 14) & 0x3ff; }
inline constexpr uint32_t qpn_index(uint32_t qpn) { return qpn & (kQpBlock - 1); }
inline constexpr uint32_t make_qpn(uint32_t slot, uint32_t index) { return slot << 14 | index; }

struct PublishedHeader {
  static constexpr uint64_t kMagic = 0x5645524241544d31;  // "VERBATM1"
  uint64_t magic;
  uint32_t pid;                                     ///< in the process's own pid namespace
  std::atomic<uint32_t> block_slots[kQpBlocksMax];  ///< slot of each queue pair block, 0: unused
  char program[32];                                 ///< name, NUL terminated
  std::atomic<uint64_t> reason_count;  ///< reasons ever recorded; the newest kReasonsMax are kept
  std::atomic<uint32_t> objects[8];    ///< live counts: contexts, PDs, MRs, CQs, QPs, SRQs, AHs, channels
  std::atomic<uint32_t> shown_end;     ///< no object of commands is shown from here on
  std::atomic<uint32_t> ports_down;    ///< a bit for each device: peers leave its memory alone
  std::atomic<uint32_t> qp_ends[kQpBlocksMax];  ///< of each block: no queue pair had an index from here on
};

/// A memory key. 64 bytes.
struct alignas(64) PublishedKey {
  std::atomic<uint32_t> sequence;
  std::atomic<uint32_t> key;      ///< index << 8 | variant; 0: no such key
  std::atomic<uint32_t> access;   ///< engine::Access
  std::atomic<uint32_t> domain;   ///< protection domain number
  std::atomic<uint64_t> start;    ///< first address as remote and local work requests name it (IOVA)
  std::atomic<uint64_t> length;   ///< bytes
  std::atomic<uint64_t> address;  ///< where `start` lies in the owner's memory
  std::atomic<uint32_t> queue;    ///< with kBound: the only queue pair that may use it
  uint32_t reserved[5];
};
static_assert(sizeof(PublishedKey) == 64);

/// A queue pair: first line what a direct access checks, second line counters for people.
struct alignas(64) PublishedQp {
  std::atomic<uint32_t> sequence;
  std::atomic<uint32_t> generation;  ///< grows with every reset-to-init
  std::atomic<uint32_t> qpn;         ///< 0: no such queue pair
  std::atomic<uint8_t> state;        ///< engine::QpState
  std::atomic<uint8_t> transport;    ///< engine::QpType
  std::atomic<uint16_t> lid;         ///< of its port in the InfiniBand subnet, 0: the port is Ethernet
  std::atomic<uint32_t> access;      ///< qp_access_flags
  std::atomic<uint32_t> domain;      ///< protection domain number
  std::atomic<uint32_t> remote_qpn;
  std::atomic<uint32_t> first_psn;  ///< rq_psn as configured
  std::atomic<uint32_t> path_mtu;   ///< bytes
  std::atomic<uint32_t> max_dest_rd_atomic;
  std::atomic<uint32_t>
      expected_psn;  ///< received in order up to here: what a peer finds when the owner has died
  std::atomic<uint16_t> min_rnr_timer;  ///< code
  std::atomic<uint16_t> device;         ///< which one of its process's it belongs to
  std::atomic<uint64_t> access_key;     ///< of a DC target
  // counters
  std::atomic<uint64_t> send_messages, send_bytes, receive_messages, receive_bytes;
  std::atomic<uint64_t> rnr_naks, retries, errors;
  std::atomic<uint64_t> xrc_domain;  ///< of an XRC receiver
  std::atomic<uint16_t> pkey;        ///< on an InfiniBand port
};
static_assert(sizeof(PublishedQp) == 128);

/// An error completion or refused command, in words.
struct Reason {
  std::atomic<uint64_t> number;  ///< 1 + position in time; 0: never written; written last
  uint64_t time_ns;              ///< CLOCK_REALTIME
  uint32_t qpn;
  uint32_t status;  ///< engine::Status, or kRefusal with an errno value
  uint64_t work;    ///< work queue index
  char text[224];   ///< NUL terminated
};
static_assert(sizeof(Reason) == 256);

/// An object that a program has made by commands.
struct PublishedObject {
  std::atomic<uint32_t> shown;  ///< 0: none here; written last
  uint32_t number;
  char kind[24];  ///< "MKEY", "UMEM"; NUL terminated
};
static_assert(sizeof(PublishedObject) == 32);

/// What queue pairs of one number have sent through and taken from their port, as packets on its link would
/// count: it only grows, and the next queue pair of that number goes on with it, so that a sum over all is
/// true at any time. What two processes of a host do without packets is counted by the requester for both.
/// 128 bytes.
struct alignas(64) PublishedTraffic {
  // Written with the requester's lock held.
  std::atomic<uint64_t> sent_bytes, sent_packets;          ///< also answers that a peer on this port has sent
  std::atomic<uint64_t> returned_bytes, returned_packets;  ///< answers, and requests to a peer on this port
  std::atomic<uint64_t> writes, reads, atomics;            ///< to peers on this port
  std::atomic<uint64_t> device;                            ///< whose port it is
  // Written with the responder's lock held.
  alignas(64) std::atomic<uint64_t> arrived_bytes;
  std::atomic<uint64_t> arrived_packets;
  std::atomic<uint64_t> answered_bytes, answered_packets;
  std::atomic<uint64_t> written, read, changed;  ///< requests from other hosts: writes, reads, atomics
};
static_assert(sizeof(PublishedTraffic) == 128);

/// What is counted of a port. The first seven are also in PublishedTraffic.
enum class PortCount : uint8_t {
  kSentBytes,
  kSentPackets,
  kReceivedBytes,
  kReceivedPackets,
  kWrites,  ///< requests that were carried out here
  kReads,
  kAtomics,
  kMulticastSent,  ///< packets
  kMulticastReceived,
  kOutOfSequence,     ///< packets that came too early
  kDuplicates,        ///< requests that had come before
  kSequenceRefusals,  ///< a peer missed packets, and said so
  kSequenceGaps,      ///< an answer showed that another was lost
  kRnrRefusals,       ///< a peer had no receive request
  kTimeouts,          ///< a peer was silent
  kNoBuffer,          ///< no receive request was here
  kCongestionTold,    ///< notifications (CNP) sent
  kCongestionMarked,  ///< packets with a mark of congestion
  kCongestionHeard,   ///< notifications taken
  kDcConnections,     ///< DC initiators that came
  kRequesterErrors,   ///< completions with an error, flushed ones included
  kRequesterFlushed,
  kResponderErrors,
  kResponderFlushed,
  kRequestInvalid,  ///< a peer called a request invalid
  kRequestDenied,   ///< a peer refused access
  kAccessRefused,   ///< a peer was refused access
  kTooLong,         ///< a message did not fit its receive request
  kDamaged,         ///< packets with a wrong ICRC
  kOtherPartition,  ///< packets with a P_Key that is not the queue pair's
  kEnd,
};
inline constexpr size_t kPortCounts = static_cast<size_t>(PortCount::kEnd);

/// What is counted of a device's port beside the traffic of its queue pairs, and that of queue pair numbers
/// that belong to another device now.
struct alignas(64) PublishedPort {
  std::atomic<uint64_t> counts[kPortCounts];
};

/// The whole area.
struct Published {
  PublishedHeader header;
  alignas(4096) Reason reasons[kReasonsMax];
  alignas(4096) PublishedQp qps[kQpBlocksMax * kQpBlock];
  alignas(4096) PublishedKey keys[kKeysMax];
  alignas(4096) PublishedObject shown[kShownMax];
  alignas(4096) PublishedPort ports[kPortsShown];
  alignas(4096) PublishedTraffic traffic[kQpBlocksMax * kQpBlock];
};

/// Where a process shows the queue pair of this number; nullptr: the number is of none of its slots.
inline const PublishedQp* find_published(const Published& tables, uint32_t qpn) {
  for (uint32_t block = 0; block < kQpBlocksMax; block++)
    if (tables.header.block_slots[block].load(std::memory_order_relaxed) == qpn_slot(qpn))
      return &tables.qps[block * kQpBlock + qpn_index(qpn)];
  return nullptr;
}

}  // namespace verbatim::engine
