// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "wire/link/shm/entry.h"
#include "wire/link/shm/layout.h"

namespace verbatim::wire::shm {

/// The producing end of a ring in a peer's inbound segment. One thread at a time.
class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(Slot* slots, RingControl* control) : slots_(slots), control_(control) {}

  /// Room for an entry of `count` consecutive slots: where to write it, or nullptr when the ring is full. The
  /// entry is not visible before publish; nothing is lost by not publishing it.
  std::byte* reserve(uint32_t count);
  /// Shows the reserved entry to the consumer.
  void publish(uint32_t count);
  /// True when reserve(count) would succeed.
  bool has_room(uint32_t count);
  /// Asks to be woken when there is more room; true when there has been some since (then try again).
  bool ask_for_room(uint32_t count);

 private:
  uint32_t slots_free();
  void note_contents(uint32_t first, uint32_t count);

  Slot* slots_ = nullptr;
  RingControl* control_ = nullptr;
  uint32_t tail_ = 0;       ///< running position of the next entry
  uint32_t seen_head_ = 0;  ///< consumed as far as is known here
  /// Bit i: slot i begins with bytes of a payload, which could look like a stamp.
  uint64_t foreign_[kRingSlots / 64] = {};
};

/// The consuming end. Trusts nothing that it reads. One thread at a time.
class RingReader {
 public:
  RingReader(Slot* slots, RingControl* control) : slots_(slots), control_(control) {}

  enum class Next : uint8_t { kNone, kEntry, kBroken };
  /// The oldest entry: a private copy of its header, and its memory (`bytes` of it, consecutive). Pads are
  /// skipped.
  Next next(EntryHeader& header, const std::byte*& memory, uint32_t& bytes);
  /// Done with the entry that next gave; true when the producer must be woken. The producer learns of its
  /// room now and then: an empty ring always shows it enough for the longest entry.
  bool consume(const EntryHeader& header);
  /// Thread safe: a hint for whoever wonders whether to take the consumer's lock.
  bool pending() const {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    return slots_[head % kRingSlots].stamp.load(std::memory_order_acquire) == stamp_of(head);
  }

 private:
  bool publish_head();

  static constexpr uint32_t kPublishEvery = kRingSlots / 4;
  static_assert(kRingSlots - kPublishEvery > 2 * (kEagerBytesMax / kSlotBytes + kPiecesMax));
  static constexpr uint32_t kPrefetchAhead = 5;
  Slot* slots_ = nullptr;
  RingControl* control_ = nullptr;
  std::atomic<uint32_t> head_{0};  ///< written by the consumer only
  uint32_t published_head_ = 0;
};

}  // namespace verbatim::wire::shm
