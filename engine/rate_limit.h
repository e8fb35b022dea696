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
  void set_mbps(uint32_t mbps) { mbps_.store(mbps, std::memory_order_relaxed); }
  /// The instant from which on something may be sent.
  uint64_t free_at_ns() const;
  void charge(uint64_t bytes, uint64_t now_ns);

 private:
  const std::shared_ptr<RateLimit> parent_;
  std::atomic<uint32_t> mbps_{0};
  std::atomic<uint64_t> free_at_ns_{0};
};

}  // namespace verbatim::engine
