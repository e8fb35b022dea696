// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim {

/// Tells the processor that the caller spins.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A lock for sections of tens of nanoseconds. Uncontended cost: one atomic exchange. A waiter sleeps after a
/// short spin, because the holder may have been preempted on a machine with few cores, by the waiter itself
/// even: to yield would leave the processor to whoever spins there for a slice of his, and the lock free
/// meanwhile.
/// Satisfies Lockable (std::lock_guard, std::unique_lock). A lock that is switched off (single-threaded
/// thread domains) costs a predictable branch.
class SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() {
    if (!enabled_) return;
    while (held_.exchange(kHeld, std::memory_order_acquire) == kHeld) wait();
  }
  bool try_lock() {
    if (!enabled_) return true;
    return held_.load(std::memory_order_relaxed) != kHeld &&
           held_.exchange(kHeld, std::memory_order_acquire) != kHeld;
  }
  /// A guess, except for its holder.
  bool is_held() const { return held_.load(std::memory_order_relaxed) == kHeld; }
  void unlock() {
    if (!enabled_) return;
    // Looked at before: whoever takes the lock next may take it down. Waiters that come in between look again
    // by themselves.
    const bool awaited = sleepers_.load(std::memory_order_relaxed) != 0;
    held_.store(kFree, std::memory_order_release);
    if (awaited) [[unlikely]]
      wake(&held_);
  }
  /// Turns locking off for good; only before the lock is shared.
  void disable() { enabled_ = false; }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1;
  void wait();
  static void wake(std::atomic<uint32_t>* word);

  std::atomic<uint32_t> held_{kFree};
  std::atomic<uint16_t> sleepers_{0};
  bool enabled_ = true;
};

}  // namespace verbatim
