// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/spinlock.h"

namespace verbatim::engine {

/// Lets an owner wait until every reader that might still hold an old value has finished (sleepable RCU with
/// two counters). Readers pay two atomic increments and never block; a reader may nest.
class AccessGuard {
 public:
  uint32_t enter() {
    const uint32_t side = epoch_.load(std::memory_order_relaxed) & 1;
    readers_[side].count.fetch_add(1, std::memory_order_seq_cst);
    return side;
  }
  void leave(uint32_t side) { readers_[side].count.fetch_sub(1, std::memory_order_release); }

  /// Returns when all readers that entered before the call have left. Must not be called by a reader.
  /// Two rounds: a reader may have chosen its side just before a flip and counted itself just after.
  void wait() {
    std::lock_guard<std::mutex> one_waiter(lock_);
    for (int round = 0; round < 2; round++) {
      const uint32_t old = epoch_.fetch_add(1, std::memory_order_seq_cst) & 1;
      for (int spins = 0; readers_[old].count.load(std::memory_order_seq_cst) != 0; spins++)
        spins < kSpinsBeforeYield ? spin_pause() : static_cast<void>(sched_yield());
    }
  }

 private:
  static constexpr int kSpinsBeforeYield = 200;
  struct alignas(64) Side {
    std::atomic<uint32_t> count{0};
  };
  Side readers_[2];
  std::atomic<uint32_t> epoch_{0};
  std::mutex lock_;
};

/// A reader's section.
class AccessScope {
 public:
  explicit AccessScope(AccessGuard& guard) : guard_(guard), side_(guard.enter()) {}
  ~AccessScope() { guard_.leave(side_); }
  AccessScope(const AccessScope&) = delete;
  AccessScope& operator=(const AccessScope&) = delete;

 private:
  AccessGuard& guard_;
  uint32_t side_;
};

}  // namespace verbatim::engine
