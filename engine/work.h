// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/gid.h"
#include "engine/key_errors.h"
#include "engine/status.h"

namespace verbatim::engine {

inline constexpr uint32_t kSgeMax = 32;

/// One scatter/gather element as a work queue entry names it.
struct Sge {
  uint64_t address;
  uint32_t length;  ///< bytes
  uint32_t lkey;
};

enum class Opcode : uint8_t {
  kSend,
  kSendImmediate,
  kSendInvalidate,
  kSegmentedSend,  ///< of frames: one request is cut into many (frame_segments.h)
  kWrite,
  kWriteImmediate,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kAtomicWrite,
  kFlush,
  kNop,
  // What the device does by itself (SendQueue::perform).
  kKeyUpdate,
  kSignatureValue,
  kMemoryCopy,
  kTagList,
};

/// Where a datagram goes, or the target of a DC initiator's request (its address vector).
struct Destination {
  Gid gid;
  uint32_t qpn = 0;
  uint32_t qkey = 0;  ///< bit 31 set: use the queue pair's own (IBA 3.5.3)
  uint32_t flow_label = 0;
  uint16_t lid = 0;     ///< from an InfiniBand port
  bool has_grh = true;  ///< from an Ethernet port always
  uint8_t source_gid_index = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;
  // Of a DC initiator alone; others do not pay for clearing them.
  uint16_t stream;
  uint64_t access_key;
  uint32_t srqn;  ///< of an XRC sender
};

/// A decoded send work request. Filled by the device model, read by the requester; holds pointers into the
/// queue only for inline data.
struct SendWork {
  Opcode opcode{};
  bool signaled = false;
  bool solicited = false;
  bool fence = false;
  bool last = false;       ///< nothing was rung behind it yet; whoever rings later runs the queue then
  uint32_t immediate = 0;  ///< immediate data in network order, the key to invalidate, or wire::kFlush*
  uint32_t reach;          ///< of a flush: bytes that it covers
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  uint64_t swap_or_add = 0;   ///< host order
  uint64_t compare = 0;       ///< host order
  Destination destination;    ///< datagrams, DC initiators and XRC senders only
  uint8_t checksums = 0;      ///< of frames: which to compute (frame_checksums.h)
  bool inserts_vlan = false;  ///< a tag of `vlan` goes in front of the frame's EtherType
  uint16_t vlan = 0;
  /// Of a segmented send: bytes of payload in a frame, and of headers before all of it.
  uint16_t segment_bytes = 0, header_bytes = 0;

  uint32_t sge_count = 0;
  Sge sges[kSgeMax];
  /// Bit i set: element i is inline data. It lies in the queue, so its address needs no key check; data that
  /// wraps around the queue's end takes two elements.
  uint32_t inline_mask = 0;

  uint64_t length() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sge_count; i++) sum += sges[i].length;
    return sum;
  }
};

/// How a send work request ended.
struct SendCompletion {
  uint32_t index = 0;  ///< what SendQueue::fetch was given
  Opcode opcode{};
  Status status{};
  uint32_t bytes = 0;     ///< of the message
  bool signaled = false;  ///< asked for by the work request; errors always complete
  uint8_t vendor_detail = 0;
};

/// A receive work request taken off its queue.
struct ReceiveWork {
  uint32_t index = 0;    ///< the model's own name of the entry
  uint32_t skipped = 0;  ///< bytes of the message's beginning that do not go into its memory
  uint32_t sge_count = 0;
  Sge sges[kSgeMax];

  uint64_t capacity() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sge_count; i++) sum += sges[i].length;
    return sum;
  }
};

/// What the device has seen of a received frame.
struct FrameFacts {
  uint8_t network = 0;    ///< 4, 6: IP version; 0: something else
  uint8_t transport = 0;  ///< IP protocol number of TCP or UDP; 0: something else
  uint8_t right_checksums = 0;
  uint32_t tag = 0;       ///< of the rule that it came by
  bool stripped = false;  ///< `vlan` was taken out of it
  uint16_t vlan = 0;
  uint32_t hash = 0;      ///< by which it was spread over queues; 0: it was not
  uint8_t hash_kind = 0;  ///< of what; as the device model says it
  uint8_t tunnel = 0;     ///< IP version around the packet that this is about; 0: it is in no tunnel
  bool strided = false;   ///< it shares the receive request `entry` with others
  uint16_t entry = 0;
};

/// How a received message ended.
struct ReceiveCompletion {
  uint32_t index = 0;
  Opcode opcode{};  ///< kSend, kSendImmediate, kSendInvalidate, kWriteImmediate
  Status status{};
  bool solicited = false;
  bool has_grh = false;
  bool is_ipv4 = false;    ///< GRH area carries an IPv4 header (RoCE v2 over IPv4)
  uint32_t bytes = 0;      ///< with the 40 bytes of the GRH area for datagrams
  uint32_t immediate = 0;  ///< network order, or the invalidated key
  uint32_t qpn = 0;        ///< of the queue pair that received it
  uint32_t src_qpn = 0;
  uint16_t source_lid = 0;  ///< 0: it came through an Ethernet port
  uint8_t service_level = 0;
  uint8_t vendor_detail = 0;
  const FrameFacts* frame = nullptr;  ///< of frames; valid during the call
};

/// The send queue of one queue pair, as the device model keeps it. Called with the requester's lock held.
class SendQueue : public KeyErrors {
 public:
  enum class Fetch : uint8_t { kNone, kWork, kBad };
  virtual ~SendQueue() = default;
  void on_key_error(uint32_t /*key*/, DataTransform& /*transform*/) override {}
  /// Decodes the entry at `index` (a running counter that the model defines, 0 after reset) without consuming
  /// it; `next` receives the index after it. kNone: nothing rung there yet. kBad: `reason` says what is wrong
  /// with it; `next` is still advanced, by one basic block at least. Must not trust the queue memory.
  virtual Fetch fetch(uint32_t index, SendWork& work, uint32_t& next, const char*& reason) = 0;
  enum class Performed : uint8_t { kDone, kLater, kFailed };
  /// Carries out an entry that concerns the device alone, when all before it have begun. `outstanding`: some
  /// of them have not ended; kLater: it has to wait for them. kFailed: `status` and `reason` say how. Called
  /// inside an AccessScope.
  virtual Performed perform(uint32_t /*index*/, bool /*outstanding*/, Status& status, const char*& reason) {
    status = Status::kLocalQpOperation;
    reason = "the queue carries out no operations of its own";
    return Performed::kFailed;
  }
  /// Ends the oldest outstanding entry. Called in queue order for each entry, signaled or not.
  virtual void complete(const SendCompletion& completion) = 0;
};

/// The beginning of a message that is sent, for a queue that chooses an entry by it.
struct MessageHead {
  static constexpr uint32_t kBytesMax = 64;
  const std::byte* bytes = nullptr;
  uint32_t length = 0;  ///< of what is there: all of the first segment, or kBytesMax
  bool whole = false;   ///< the message has one packet
};

/// A receive queue or shared receive queue as the device model keeps it. Thread safe.
class ReceiveQueue {
 public:
  enum class Take : uint8_t { kNone, kWork, kBad };
  virtual ~ReceiveQueue() = default;
  /// Whether take_for() is to be asked for messages that are sent.
  virtual bool looks_at_messages() const { return false; }
  /// As take(), for the message that begins so. kNone: the message comes again.
  virtual Take take_for(const MessageHead& /*head*/, ReceiveWork& work, const char*& reason) {
    return take(work, reason);
  }
  /// Takes the oldest posted entry. kBad: the entry is taken but malformed: complete it with
  /// kLocalQpOperation.
  virtual Take take(ReceiveWork& work, const char*& reason) = 0;
};

/// Where a queue pair's received messages complete. Called with the responder's lock held.
class ReceiveSink : public KeyErrors {
 public:
  virtual ~ReceiveSink() = default;
  void on_key_error(uint32_t /*key*/, DataTransform& /*transform*/) override {}
  virtual void complete(const ReceiveCompletion& completion) = 0;
  /// The peer's read or write (kRead, kWrite) has ended; for those that QueuePair::tell_of_remote names.
  virtual void on_remote(Opcode /*opcode*/, bool /*succeeded*/, uint64_t /*bytes*/) {}
};

}  // namespace verbatim::engine
