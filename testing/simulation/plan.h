// SPDX-License-Identifier: MIT
#pragma once

// What one end of a connection is going to send, all of it known beforehand.

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "engine/qp_types.h"
#include "engine/work.h"

namespace verbatim::simulation {

/// What is wrong with a message, so that it must fail.
enum class Flaw : uint8_t { kNone, kWrongKey, kTooLong, kMisaligned, kWrongLocalKey };

struct Message {
  engine::Opcode opcode{};
  uint32_t length = 0;
  uint32_t source = 0;   ///< offset of its bytes in the sender's source; of a read, in the peer's
  uint32_t target = 0;   ///< of a write: offset in the peer's target
  uint32_t landing = 0;  ///< of reads and atomics: offset in the sender's landing place
  uint32_t reread = 0;   ///< of a read: one more than the number of the write whose bytes it reads, 0: none
  uint32_t immediate = 0;
  uint32_t reach = 0;      ///< of a flush: bytes of the peer's target
  uint32_t placement = 0;  ///< of a flush: wire::kFlush*
  uint64_t swap_or_add = 0, compare = 0;
  uint32_t pieces = 1;
  Flaw flaw = Flaw::kNone;
  bool signaled = false, fence = false, solicited = false;

  bool is_send() const { return opcode == engine::Opcode::kSend || opcode == engine::Opcode::kSendImmediate; }
  bool is_write() const {
    return opcode == engine::Opcode::kWrite || opcode == engine::Opcode::kWriteImmediate ||
           opcode == engine::Opcode::kAtomicWrite;
  }
  bool is_atomic() const {
    return opcode == engine::Opcode::kCompareSwap || opcode == engine::Opcode::kFetchAdd;
  }
  /// It ends a receive request.
  bool is_two_sided() const { return is_send() || opcode == engine::Opcode::kWriteImmediate; }
};

struct Plan {
  static constexpr uint32_t kSourceBytes = 64 * 1024;
  static constexpr uint32_t kGap = 16;  ///< untouched bytes between the places of two messages

  engine::QpType type{};  ///< kXrcSend: a sender and a receiver
  bool shared = false;    ///< what is received comes out of a shared receive queue
  std::vector<Message> messages;
  uint32_t target_bytes = kGap, landing_bytes = 8;
  uint32_t receives = 0;       ///< that all messages end
  uint32_t receive_bytes = 0;  ///< that each of them has to have room for

  /// The value of the peer's counter after so many messages, and before the one of that number.
  uint64_t counter_before(uint32_t number) const;

  static Plan make(engine::QpType type, uint32_t mtu, Random& random);
};

}  // namespace verbatim::simulation
