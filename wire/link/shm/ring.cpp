// SPDX-License-Identifier: MIT
#include "wire/link/shm/ring.h"

#include <cstring>

namespace verbatim::wire::shm {

namespace {

constexpr uint32_t kPrefetchAhead = 12;       ///< slots: far enough from where the consumer waits
constexpr uint32_t kUsable = kRingSlots - 1;  ///< the slot behind the last entry stays clear

// Compilers for the oldest x86-64 turn a prefetch for writing into one for reading, which leaves the line
// shared.
void fetch_to_write(Slot* slot) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*slot));
#else
  __builtin_prefetch(slot, 1);
#endif
}

}  // namespace

uint32_t RingWriter::slots_free() {
  const uint32_t used = tail_ - seen_head_;
  return used > kUsable ? 0 : kUsable - used;
}

bool RingWriter::has_room(uint32_t count) {
  const uint32_t to_end = kRingSlots - tail_ % kRingSlots;
  const uint32_t needed = count > to_end ? to_end + count : count;
  if (slots_free() >= needed) return true;
  const uint32_t head = control_->head.load(std::memory_order_seq_cst);
  // A consumer that claims to have read more than was written, or less than before, is not believed.
  if (tail_ - head <= kRingSlots && head - seen_head_ <= kRingSlots) seen_head_ = head;
  return slots_free() >= needed;
}

bool RingWriter::ask_for_room(uint32_t count) {
  control_->wants_room.store(1, std::memory_order_seq_cst);
  return has_room(count);
}

std::byte* RingWriter::reserve(uint32_t count) {
  if (!has_room(count)) return nullptr;
  const uint32_t at = tail_ % kRingSlots;
  const uint32_t to_end = kRingSlots - at;
  if (count > to_end) {
    EntryHeader pad{};
    pad.slots = static_cast<uint16_t>(to_end);
    pad.operation = kPad;
    std::memcpy(slots_[at].rest, &pad.slots, sizeof pad - sizeof pad.stamp);
    publish(to_end);
  }
  return reinterpret_cast<std::byte*>(&slots_[tail_ % kRingSlots]);
}

// The slot behind the entry belongs to the next one, and the consumer waits on it: it is written now only if
// it must.
void RingWriter::publish(uint32_t count) {
  const uint32_t behind = (tail_ + count) % kRingSlots;
  if (foreign_[behind / 64] >> (behind % 64) & 1) {
    slots_[behind].stamp.store(0, std::memory_order_relaxed);
    foreign_[behind / 64] &= ~(1ull << (behind % 64));
  }
  note_contents(tail_ % kRingSlots, count);
  fetch_to_write(&slots_[(tail_ + count + kPrefetchAhead) % kRingSlots]);
  slots_[tail_ % kRingSlots].stamp.store(stamp_of(tail_), std::memory_order_release);
  tail_ += count;
}

void RingWriter::note_contents(uint32_t first, uint32_t count) {
  foreign_[first / 64] &= ~(1ull << (first % 64));
  for (uint32_t slot = first + 1; slot < first + count; slot++) foreign_[slot / 64] |= 1ull << (slot % 64);
}

RingReader::Next RingReader::next(EntryHeader& header, const std::byte*& memory, uint32_t& bytes) {
  for (int pads = 0; pads < 2; pads++) {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    const uint32_t at = head % kRingSlots;
    if (!pending()) return Next::kNone;
    header.stamp = stamp_of(head);
    std::memcpy(&header.slots, slots_[at].rest, sizeof header - sizeof header.stamp);
    if (header.slots == 0 || header.slots > kRingSlots - at) return Next::kBroken;
    if (header.operation != kPad) {
      memory = reinterpret_cast<const std::byte*>(&slots_[at]);
      bytes = header.slots * kSlotBytes;
      return Next::kEntry;
    }
    head_.store(head + header.slots,
                std::memory_order_relaxed);  // its room is published with the entry that follows
  }
  return Next::kBroken;  // no sender pads twice in a row
}

bool RingReader::consume(const EntryHeader& header) {
  const uint32_t head = head_.load(std::memory_order_relaxed) + header.slots;
  head_.store(head, std::memory_order_relaxed);
  __builtin_prefetch(&slots_[(head + kPrefetchAhead) % kRingSlots]);
  return head - published_head_ >= kPublishEvery && publish_head();
}

bool RingReader::publish_head() {
  const uint32_t head = head_.load(std::memory_order_relaxed);
  if (published_head_ == head) return false;
  published_head_ = head;
  control_->head.store(head, std::memory_order_seq_cst);
  return control_->wants_room.load(std::memory_order_seq_cst) != 0 && control_->wants_room.exchange(0) != 0;
}

}  // namespace verbatim::wire::shm
