// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/gid.h"

namespace verbatim::wire {

inline constexpr uint16_t kDefaultPkey = 0xffff;

/// Longest message of a connected transport, in bytes: IBA 9.7.1 allows 2^31, a ConnectX takes 2^30.
inline constexpr uint32_t kMessageBytesMax = 1u << 30;
/// Pieces of memory one segment may be gathered from or scattered to.
inline constexpr uint32_t kPiecesMax = 64;
inline constexpr uint32_t kPsnMask = 0xffffff;
/// Segment::src_qpn where packets don't name their sender, as those of RC and UC on an Ethernet wire.
inline constexpr uint32_t kUnknownQpn = UINT32_MAX;

/// Distance from `b` to `a` in 24-bit sequence space, -2^23 .. 2^23-1.
inline int32_t psn_distance(uint32_t a, uint32_t b) { return static_cast<int32_t>((a - b) << 8) >> 8; }
inline uint32_t psn_add(uint32_t psn, uint32_t n) { return (psn + n) & kPsnMask; }

/// The service of the sending queue pair (BTH opcode bits 7..5).
enum class Transport : uint8_t { kRc, kUc, kUd, kDc, kXrc };

/// What is sent is acknowledged, or sent again.
inline bool is_reliable(Transport transport) {
  return transport == Transport::kRc || transport == Transport::kDc || transport == Transport::kXrc;
}

/// What a segment asks for or answers (BTH opcode bits 4..0, apart from its position in the message).
enum class Operation : uint8_t {
  kSend,
  kWrite,
  kReadRequest,
  kCompareSwap,
  kFetchAdd,
  kAtomicWrite,   ///< of 8 bytes, as one
  kFlush,         ///< what was written before is to be visible, or to last
  kReadResponse,  ///< also to kAtomicWrite and kFlush, without payload then
  kAtomicResponse,
  kAck,         ///< positive, RNR or negative: see `syndrome`
  kDisconnect,  ///< a DC initiator ends its connection, or whoever passes requests on; not answered
  kCongestion,  ///< to a requester, from a wire: the way to its peer is congested; not answered
};

/// A request that is answered by a response, not by an acknowledgement.
inline bool wants_response(Operation operation) {
  return operation >= Operation::kReadRequest && operation <= Operation::kFlush;
}

/// How far a flush brings what was written, and what it covers: bits of FETH, in Segment::immediate.
inline constexpr uint32_t kFlushVisible = 1, kFlushLasting = 2;
inline constexpr uint32_t kFlushRegion = 1 << 4;  ///< all of the key's memory, whatever the range

/// Properties of a segment.
enum SegmentFlag : uint16_t {
  kFirst = 1 << 0,       ///< opens a message
  kLast = 1 << 1,        ///< ends it; with kFirst: the only one
  kSolicited = 1 << 2,   ///< BTH.SE
  kImmediate = 1 << 3,   ///< `immediate` is immediate data
  kInvalidate = 1 << 4,  ///< `immediate` is an R_Key to invalidate
  kAckRequest = 1 << 5,  ///< BTH.A
  kPlaced = 1 << 6,      ///< the payload was already put in place by direct access; `length` counts it
  kAcknowledges =
      1 << 7,  ///< a request that also acknowledges: `ack_psn` (not together with immediate data or a key)
  kOpens = 1 << 8,      ///< transport kDc, and kRelayed: nothing of this connection is outstanding before
                        ///< `base_psn`
  kCongested = 1 << 9,  ///< came over a wire that was congested (ECN): the sender should be told
  kPassedOn = 1 << 10,  ///< a packet from a wire that came to the wrong process of this host first
  kFrame = 1 << 11,  ///< the payload is an Ethernet frame, for whoever has a rule for it; with transport kUd
  kAddressed = 1 << 12,   ///< its GIDs and the rest of its address are set, for who captures packets
  kRelayed = 1 << 13,     ///< transport kXrc: passed on to the process of the shared receive queue
  kRepeated = 1 << 14,    ///< a further copy of what goes to a group: who captures packets has seen it
  kMayMigrate = 1 << 15,  ///< BTH.MigReq is 0: its sender has an alternate path, and has not gone over to it
};

/// AETH syndromes (IBA table 45), and two that only a same-host link knows.
enum Syndrome : uint8_t {
  kAckOk = 0x1f,   ///< no credit information
  kRnrNak = 0x20,  ///< low 5 bits: timer code
  kNakSequence = 0x60,
  kNakInvalidRequest = 0x61,
  kNakRemoteAccess = 0x62,
  kNakRemoteOperational = 0x63,
  kNakSourceFault =
      0x70,  ///< the sender's own buffer could not be read: a local protection error at the requester
  kNakCannotPull = 0x71,  ///< the responder may not read the sender's memory: send it through the ring
  kNakNoQueue =
      0x72,  ///< nobody answers at that QPN now (not created, wrong state or peer): as if the packet was lost
};

/// One unit of transfer between two queue pairs, in host form: a whole message on the same host, one packet
/// on an Ethernet wire. Links serialise it; transports see only this.
///
/// Towards an Ethernet wire (Channel::is_wire) a segment may be many packets, each of path_mtu bytes but for
/// the last, and has its GIDs and the rest of what an address says set, whatever its transport. There
/// `base_psn` of transport kDc is the PSN before which the target has answered everything. What arrives from
/// there is one packet: of a request, `total_length` is known only with kFirst and kLast or a remote address,
/// `packets` is 1 even for a read, and `source_gid` says which host sent it, as far as the network can be
/// believed.
///
/// Fields without an initial value mean something only with the operation or transport named beside them: a
/// segment is made for every message, and clearing all of it would cost more than the rest of a small one.
struct Segment {
  Operation operation{};
  Transport transport{};
  uint8_t syndrome = 0;  ///< kAck, kAtomicResponse, last kReadResponse
  uint8_t service_level = 0;
  uint16_t flags = 0;
  uint16_t pkey = kDefaultPkey;
  uint32_t dest_qpn = 0;
  uint32_t src_qpn = 0;
  uint32_t psn = 0;       ///< of its first packet
  uint32_t base_psn = 0;  ///< PSN that the responder expects before it: differs from psn when direct accesses
                          ///< used some in between
  uint32_t packets = 1;   ///< PSNs that it takes: length / path MTU, rounded up, at least 1
  uint32_t path_mtu = 4096;   ///< bytes
  uint32_t length = 0;        ///< payload bytes of this segment
  uint32_t immediate = 0;     ///< immediate data (as the program gave it, network order), R_Key or kFlush*
  uint32_t ack_psn = 0;       ///< with kAcknowledges: newest PSN received in order
  uint32_t msn = 0;           ///< kAck, responses, and with kAcknowledges
  uint32_t total_length = 0;  ///< requests: of the whole message (RETH DMA length)
  bool has_grh = false;
  // XRCETH: requests of transport kXrc
  uint32_t srqn;
  // RETH: kWrite, kReadRequest, kCompareSwap, kFetchAdd, kAtomicWrite, kFlush
  uint64_t remote_address;
  uint32_t rkey;
  // AtomicETH: kCompareSwap, kFetchAdd, kAtomicResponse
  uint64_t swap_or_add;  ///< also the original value in kAtomicResponse
  uint64_t compare;
  // DETH: transport kUd
  uint32_t qkey;
  // GRH: transport kUd, and all on an Ethernet wire
  uint32_t flow_label;
  uint8_t traffic_class;
  uint8_t hop_limit;
  GidType gid_type;               ///< kInfiniband: between ports of that kind
  uint16_t source_lid, dest_lid;  ///< of InfiniBand ports
  Gid source_gid, dest_gid;
  // Transport kDc
  uint64_t access_key;
  uint32_t
      connection;  ///< which of the initiator's process: a later one has a later number; answers repeat it

  bool has(SegmentFlag f) const { return (flags & f) != 0; }
};

/// A run of this process's memory.
struct Piece {
  void* base;
  size_t length;
};

/// Result of moving bytes between a payload and this process's memory.
enum class CopyResult : uint8_t { kDone, kSourceFault, kDestinationFault, kForbidden };

/// The bytes of a received segment, wherever they lie. Valid only during the call that delivers it.
class Payload {
 public:
  virtual ~Payload() = default;
  /// Puts bytes [offset, offset + sum of pieces) into `pieces`. Never touches anything else; faults are
  /// results.
  virtual CopyResult copy_to(size_t offset, const Piece* pieces, uint32_t count) = 0;
};

}  // namespace verbatim::wire
