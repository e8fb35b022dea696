// SPDX-License-Identifier: MIT
#pragma once

// What the two ends of a stream socket say to each other; released libraries are peers.
//
// Each end has a receive buffer in two halves. It tells the peer of a half that is free by writing its place
// into the peer's list of two targets; the peer fills it by RDMA writes, one after the other, and the
// immediate value of each says what it was. A receive is used up by each message, so that a sender counts
// them: a message about targets also says up to which one it may send. Integers of memory are in the byte
// order of its owner.

#include <cstdint>

namespace verbatim::rdmacm {

/// The upper three bits of an immediate value.
enum class StreamMessage : uint32_t {
  kData = 0,     ///< bytes written
  kDirect = 2,   ///< bytes written into a mapping; only in completions of the sender
  kTargets = 4,  ///< number of the message that may be sent no more (16 bits); a target may be new
  kMapping = 6,  ///< index of a mapping that was written
  kControl = 7,  ///< StreamControl
};
enum class StreamControl : uint32_t { kDisconnect = 0, kKeepAlive = 1, kShutdown = 2 };

constexpr int kMessageShift = 29;
constexpr uint32_t stream_message(StreamMessage message, uint32_t value) {
  return (static_cast<uint32_t>(message) << kMessageShift) | value;
}
constexpr StreamMessage message_of(uint32_t immediate) {
  return static_cast<StreamMessage>(immediate >> kMessageShift);
}
constexpr uint32_t value_of(uint32_t immediate) { return immediate & ((1u << kMessageShift) - 1); }

/// Memory of the peer.
struct RemotePiece {
  uint64_t address;
  uint32_t key;
  uint32_t length;
};
static_assert(sizeof(RemotePiece) == 16);

/// Memory that the peer may write to by a name of its own.
struct RemoteMapping {
  uint64_t offset;
  RemotePiece piece;
};
static_assert(sizeof(RemoteMapping) == 24);

inline constexpr uint32_t kTargets = 2;

/// Private data of a connect request and its answer; big endian.
struct StreamGreeting {
  static constexpr uint8_t kVersion = 1, kBigEndian = 1, kMaps = 2;
  uint8_t version;
  uint8_t flags;
  uint16_t credits;
  uint8_t reserved[3];
  uint8_t mappings;  ///< see mappings_scaled
  RemotePiece targets;
  RemotePiece buffer;
};
static_assert(sizeof(StreamGreeting) == 40);

/// A number of mappings in 8 bits: small ones as they are, large ones in units of 256.
constexpr uint8_t scale_mappings(uint32_t count) {
  return static_cast<uint8_t>(count <= 128 ? count : 128 | (count >> 8));
}
constexpr uint32_t unscale_mappings(uint8_t scaled) { return scaled <= 128 ? scaled : (scaled & 127u) << 8; }

}  // namespace verbatim::rdmacm
