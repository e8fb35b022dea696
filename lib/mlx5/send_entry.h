// SPDX-License-Identifier: MIT
#pragma once

// Writing send work queue entries: shared by ibv_post_send and the ibv_wr_ calls. The queue's lock is held.

#include <cstring>

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {

/// The position `bytes`, a multiple of 16, further on in the ring.
inline std::byte* advance(const QueuePair& qp, std::byte* at, size_t bytes) {
  at += bytes;
  return at < qp.send_end() ? at : at - static_cast<size_t>(qp.blocks) * kBlock;
}

/// The control segment's flags; what a local operation asks of the next entry is settled here.
inline uint8_t control_flags(QueuePair& qp, unsigned int send_flags) {
  uint8_t flags = qp.always_flags;
  if ((send_flags & IBV_SEND_SIGNALED) != 0) flags |= connectx::kCompletionAlways;
  if ((send_flags & IBV_SEND_SOLICITED) != 0) flags |= connectx::kSolicitedEvent;
  if ((send_flags & IBV_SEND_FENCE) != 0)
    flags |= connectx::kFence;
  else if (qp.fence_next)
    flags |= connectx::kFenceSmall;
  qp.fence_next = false;
  return flags;
}

/// Writes everything of the control segment but the size. `immediate` as it goes into memory.
inline void write_control(QueuePair& qp, std::byte* at, uint8_t opcode, uint32_t immediate, uint8_t flags) {
  auto& control = *reinterpret_cast<connectx::ControlSegment*>(at);
  control.index_opcode = (qp.block & 0xffff) << 8 | opcode;
  std::memset(&control.signature, 0, 3);
  control.flags = flags;
  control.immediate = connectx::Be32::from_raw(immediate);
}

/// Ends an entry of `units` at `qp.block` and steps behind it.
inline void finish_entry(QueuePair& qp, uint32_t units) {
  auto& control = *reinterpret_cast<connectx::ControlSegment*>(qp.block_at(qp.block));
  control.qpn_ds = qp.number << 8 | units;
  qp.block += (units * kUnit + kBlock - 1) / kBlock;
}

inline std::byte* write_remote(const QueuePair& qp, std::byte* at, uint64_t address, uint32_t rkey) {
  auto& segment = *reinterpret_cast<connectx::RemoteSegment*>(at);
  segment.address = address;
  segment.rkey = rkey;
  segment.reserved = 0;
  return advance(qp, at, sizeof segment);
}

inline std::byte* write_atomic(const QueuePair& qp, std::byte* at, uint64_t swap_or_add, uint64_t compare) {
  auto& segment = *reinterpret_cast<connectx::AtomicSegment*>(at);
  segment.swap_or_add = swap_or_add;
  segment.compare = compare;
  return advance(qp, at, sizeof segment);
}

/// Names the shared receive queue of an XRC sender's request.
inline std::byte* write_xrc(const QueuePair& qp, std::byte* at, uint32_t srqn) {
  auto& segment = *reinterpret_cast<connectx::XrcSegment*>(at);
  std::memset(static_cast<void*>(&segment), 0, sizeof segment);
  segment.srqn = srqn;
  return advance(qp, at, sizeof segment);
}

/// It fills the first block to its end.
inline void write_datagram(std::byte* at, const ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  auto& segment = *reinterpret_cast<connectx::DatagramSegment*>(at);
  segment = static_cast<const AddressHandle*>(reinterpret_cast<const verbs::AddressHandle*>(ah))->vector;
  segment.dest_qpn = connectx::kExtendedAv | (remote_qpn & 0xffffff);
  segment.qkey = remote_qkey;
}

/// The same for a request of a DC initiator.
inline void write_target(std::byte* at, const ibv_ah* ah, uint32_t target, uint64_t access_key) {
  write_datagram(at, ah, target, static_cast<uint32_t>(access_key >> 32));
  reinterpret_cast<connectx::DatagramSegment*>(at)->key_low = static_cast<uint32_t>(access_key);
}

/// What is to be done with a frame; all of it lies in what the entry's elements name.
inline std::byte* write_ethernet(const QueuePair& qp, std::byte* at, unsigned int send_flags) {
  auto& segment = *reinterpret_cast<connectx::EthernetSegment*>(at);
  std::memset(static_cast<void*>(&segment), 0, sizeof segment);
  if ((send_flags & IBV_SEND_IP_CSUM) != 0)
    segment.checksums = connectx::kFrameNetworkChecksum | connectx::kFrameTransportChecksum;
  return advance(qp, at, sizeof segment);
}

inline std::byte* write_data(const QueuePair& qp, std::byte* at, uint64_t address, uint32_t length,
                             uint32_t lkey) {
  auto& segment = *reinterpret_cast<connectx::DataSegment*>(at);
  segment.byte_count = length;
  segment.lkey = lkey;
  segment.address = address;
  return advance(qp, at, sizeof segment);
}

/// Copies bytes to a place in the ring, around its end; the place behind them, which need not be a segment's.
inline std::byte* copy_around(const QueuePair& qp, std::byte* at, const void* from, size_t length) {
  const auto room = static_cast<size_t>(qp.send_end() - at);
  if (length < room) {
    std::memcpy(at, from, length);
    return at + length;
  }
  std::memcpy(at, from, room);
  std::memcpy(qp.send_ring, static_cast<const std::byte*>(from) + room, length - room);
  return qp.send_ring + (length - room);
}

/// The same for a request that is cut into frames, whose headers it brings; `units`: how long the segment is.
inline std::byte* write_headers(const QueuePair& qp, std::byte* at, unsigned int send_flags,
                                const void* headers, uint16_t bytes, uint16_t segment_bytes,
                                uint32_t& units) {
  write_ethernet(qp, at, send_flags);
  auto& segment = *reinterpret_cast<connectx::EthernetSegment*>(at);
  segment.segment_bytes = segment_bytes;
  segment.inline_bytes = bytes;
  constexpr size_t kStart = offsetof(connectx::EthernetSegment, inline_start);
  copy_around(qp, at + kStart, headers, bytes);
  units = static_cast<uint32_t>((kStart + bytes + kUnit - 1) / kUnit);
  return advance(qp, at, size_t{units} * kUnit);
}

/// Whether a request may have headers of this size.
inline bool fits_header(const QueuePair& qp, uint32_t bytes) {
  constexpr uint32_t kEthernetHeader = 14;
  return bytes >= kEthernetHeader && bytes <= qp.max_header;
}

/// Inline data under construction: bytes are appended, then the segment is closed.
class InlineWriter {
 public:
  InlineWriter(const QueuePair& qp, std::byte* at)
      : qp_(qp), segment_(at), at_(at + sizeof(connectx::InlineSegment)) {}

  void append(const void* from, size_t length) {
    at_ = copy_around(qp_, at_, from, length);
    length_ += static_cast<uint32_t>(length);
  }
  /// Returns the units that the segment takes; none without data.
  uint32_t close() {
    if (length_ == 0) return 0;
    reinterpret_cast<connectx::InlineSegment*>(segment_)->byte_count = length_ | connectx::kInlineFlag;
    return (static_cast<uint32_t>(sizeof(connectx::InlineSegment)) + length_ + kUnit - 1) / kUnit;
  }
  uint32_t length() const { return length_; }

 private:
  const QueuePair& qp_;
  std::byte* segment_;
  std::byte* at_;
  uint32_t length_ = 0;
};

/// A memory key update that frees a key: what follows the control segment of a local invalidate. Returns its
/// units.
uint32_t write_invalidate(const QueuePair& qp, std::byte* at);
/// One that binds a memory window, or frees it where the length is 0. 0 and its units, or an errno value.
int write_bind(const QueuePair& qp, std::byte* at, const ibv_mw& window, uint32_t rkey,
               const ibv_mw_bind_info& info, uint32_t& units);

}  // namespace verbatim::mlx5
