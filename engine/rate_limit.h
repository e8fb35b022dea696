// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace verbatim::engine {

/// How fast several queue pairs may send together, averaged over time; below another limit, if it has a
/// parent. Thread safe.
///
/// Whatever is sent puts the limit in debt for as long as its bytes take at the rate. Nothing begins while it
/// is in debt; after a pause a little more may go at once.
class RateLimit {
 public:
  explicit RateLimit(std::shared_ptr<RateLimit> parent = nullptr) : parent_(std::move(parent)) {}

  /// Megabits in a second; 0: no limit.
  void set_mbps(uint32_t mbps) { set_kbps(uint64_t{mbps} * 1000); }
  void set_kbps(uint64_t kbps) { kbps_.store(kbps, std::memory_order_relaxed); }
  /// How much may go at once after a pause; 0: what the rate makes of a short while.
  void set_burst(uint32_t bytes) { burst_bytes_.store(bytes, std::memory_order_relaxed); }
  /// The instant from which on something may be sent.
  uint64_t free_at_ns() const;
  void charge(uint64_t bytes, uint64_t now_ns);

 private:
  const std::shared_ptr<RateLimit> parent_;
  std::atomic<uint64_t> kbps_{0};
  std::atomic<uint32_t> burst_bytes_{0};
  std::atomic<uint64_t> free_at_ns_{0};
};

}  // namespace verbatim::engine
