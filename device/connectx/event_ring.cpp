// SPDX-License-Identifier: MIT
#include "device/connectx/event_ring.h"

#include <atomic>

#include "base/fault_copy.h"

namespace verbatim::connectx {

bool EventRing::push(const Entry& entry) {
  if (failed_ || (unread() >= entries_ && !ignore_overrun_)) {
    failed_ = true;
    return false;
  }
  std::byte* to = base_ + static_cast<size_t>(produced_ & (entries_ - 1)) * kEntryBytes;
  const uint8_t owner = (produced_ & entries_) != 0;
  const uint8_t last = static_cast<uint8_t>((entry.back() & ~1u) | owner);
  // The owner bit last: it gives the entry away.
  if (!fault_copy(to, entry.data(), kEntryBytes - 1)) failed_ = true;
  std::atomic_thread_fence(std::memory_order_release);
  if (!fault_copy(to + kEntryBytes - 1, &last, 1)) failed_ = true;
  if (failed_) return false;
  produced_ = (produced_ + 1) & kIndexMask;
  const bool due = armed_;
  armed_ = false;
  return due;
}

bool EventRing::consume(uint32_t index, bool wants_event) {
  if (((index - consumed_) & kIndexMask) <= unread()) consumed_ = index & kIndexMask;
  return wants_event && arm();
}

bool EventRing::arm() {
  armed_ = unread() == 0;
  return !armed_;
}

}  // namespace verbatim::connectx
