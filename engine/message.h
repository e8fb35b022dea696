// SPDX-License-Identifier: MIT
#pragma once

#include "engine/elements.h"
#include "engine/requester.h"

namespace verbatim::engine {

/// Longest datagram, in bytes.
inline constexpr uint32_t kDatagramBytesMax = 4096;

/// A send work request on its way: what the queue entry said, and the memory it names.
struct Requester::Message {
  SendWork work;
  uint32_t index = 0, next_index = 0;
  uint32_t length = 0;     ///< bytes
  uint32_t packets = 1;    ///< of the path MTU
  bool placed = false;     ///< direct access has moved the bytes already
  bool scattered = false;  ///< some element is more than one piece: `pieces` says nothing
  uint32_t count = 0;
  wire::Piece pieces[kSgeMax];
};

/// Cuts bytes [offset, offset + length) out of a list of pieces; returns how many pieces result.
uint32_t slice(const wire::Piece* pieces, uint32_t count, uint64_t offset, uint64_t length, wire::Piece* out);

/// Packets that a message of `length` bytes takes. To divide costs more than to look first.
inline uint32_t packets_of(uint32_t length, uint32_t mtu) {
  return length <= mtu ? 1 : (length - 1) / mtu + 1;
}

inline bool is_write(Opcode op) { return op == Opcode::kWrite || op == Opcode::kWriteImmediate; }
inline bool is_atomic(Opcode op) { return op == Opcode::kCompareSwap || op == Opcode::kFetchAdd; }
inline bool is_local(Opcode op) {
  return op == Opcode::kNop || op == Opcode::kKeyUpdate || op == Opcode::kSignatureValue ||
         op == Opcode::kMemoryCopy || op == Opcode::kTagList;
}
inline bool is_for_frames(Opcode op) { return op == Opcode::kSend || op == Opcode::kSegmentedSend; }
/// How long the answer to a request may take, by the code of a queue pair's attribute; the code 0 means for
/// ever.
inline uint64_t ack_timeout_ns(uint8_t code) { return 4096ull << code; }
inline bool awaits_response(Opcode op) { return op >= Opcode::kRead && op <= Opcode::kFlush; }
/// What the request or the response carries.
inline bool sends_data(Opcode op) { return !awaits_response(op) || op == Opcode::kAtomicWrite; }
inline bool brings_data(Opcode op) { return op >= Opcode::kRead && op <= Opcode::kFetchAdd; }
/// The response is without data.
inline bool is_placement(Opcode op) { return op == Opcode::kAtomicWrite || op == Opcode::kFlush; }

}  // namespace verbatim::engine
