// SPDX-License-Identifier: MIT
#pragma once

// What both ends of a stream know beforehand: from a seed, the operations of every batch, their sizes, how
// each end splits them over its memory, and every byte that moves.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbatim::stress {

enum class Kind : uint8_t {
  kSend,
  kSendImmediate,
  kWrite,
  kWriteImmediate,
  kRead,
  kReadBack,   ///< reads what a write of the same batch has put there
  kOverwrite,  ///< writes over what a write of the same batch has put there
  kFetchAdd,
  kCompareSwap,
};
inline constexpr size_t kKinds = 9;

inline constexpr uint32_t kLengthMax = 16u << 20;  ///< bytes of one operation
inline constexpr uint32_t kBatchMax = 5;           ///< operations that are under way at a time
inline constexpr uint32_t kElementsMax = 8;
inline constexpr uint32_t kGapMax = 63;  ///< bytes between elements, and a canary in front of the first
/// Memory of one operation at one end.
inline constexpr size_t kSlotBytes = kLengthMax + 2 * 4096;

/// A part of a slot.
struct Part {
  uint32_t offset = 0, length = 0;
};

struct Step {
  Kind kind{};
  uint32_t length = 0;
  uint32_t slot = 0;         ///< of the responder's memory
  uint32_t remote_skew = 0;  ///< where in that slot one-sided operations begin
  uint64_t pattern = 0;      ///< seed of the bytes
  std::vector<Part> local;   ///< the requester's elements
  std::vector<Part> posted;  ///< the responder's receive elements (kSend..: at least as long as the message)
  bool signaled = false, inline_data = false, fence = false;
  uint32_t immediate = 0;
  uint64_t operand = 0;  ///< added, or swapped in
  bool matches = false;  ///< the comparison will hold
};

struct Batch {
  std::vector<Step> steps;
  bool late_receives = false;  ///< the responder posts only after the requester has begun
  uint64_t bytes = 0;
};

/// The batches of one stream, in order; both ends walk it alike.
class Plan {
 public:
  Plan(uint64_t seed, uint32_t inline_bytes) : state_(seed), inline_bytes_(inline_bytes) {}
  Batch next();

 private:
  uint64_t random();
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random() % bound); }
  uint32_t random_length();
  std::vector<Part> split(uint32_t length, bool spare);
  Step step(uint32_t position, const std::vector<Step>& before);

  uint64_t state_;
  uint32_t inline_bytes_;
};

/// Bytes `at`.. of the pattern of `seed`.
void fill_pattern(uint64_t seed, uint64_t at, std::byte* to, size_t bytes);
/// The first byte of the range that differs, or `bytes`.
size_t check_pattern(uint64_t seed, uint64_t at, const std::byte* from, size_t bytes);

/// Lays the canary over a slot, as far as an operation of `length` could reach.
void lay_canary(std::byte* slot, uint32_t length);
/// The first byte of the slot outside of `parts` (ascending) that is no canary any more, or -1.
int64_t find_trespass(const std::byte* slot, uint32_t length, const std::vector<Part>& parts);

}  // namespace verbatim::stress
