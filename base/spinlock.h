// SPDX-License-Identifier: MIT
#pragma once

#include <sched.h>

#include <atomic>

namespace verbatim {

/// Tells the processor that the caller spins.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A lock for sections of tens of nanoseconds. Uncontended cost: one atomic exchange. A waiter yields its
/// processor after a short spin, because the holder may have been preempted on a machine with few cores.
/// Satisfies Lockable (std::lock_guard, std::unique_lock). A lock that is switched off (single-threaded
/// thread domains) costs a predictable branch.
class SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() {
    if (!enabled_) return;
    int spins = 0;
    while (held_.exchange(true, std::memory_order_acquire)) {
      while (held_.load(std::memory_order_relaxed)) {
        if (++spins < kSpinsBeforeYield)
          spin_pause();
        else
          sched_yield();
      }
    }
  }
  bool try_lock() {
    if (!enabled_) return true;
    return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire);
  }
  void unlock() {
    if (enabled_) held_.store(false, std::memory_order_release);
  }
  /// Turns locking off for good; only before the lock is shared.
  void disable() { enabled_ = false; }

 private:
  static constexpr int kSpinsBeforeYield = 100;
  std::atomic<bool> held_{false};
  bool enabled_ = true;
};

}  // namespace verbatim
