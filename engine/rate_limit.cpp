// SPDX-License-Identifier: MIT
#include "engine/rate_limit.h"

#include <algorithm>

namespace verbatim::engine {

namespace {

constexpr uint64_t kPauseCountsNs = 100'000;  ///< how much of a pause may be made up for

uint64_t takes_ns(uint64_t bytes, uint64_t kbps) { return bytes * 8 * 1'000'000 / kbps; }

}  // namespace

uint64_t RateLimit::free_at_ns() const {
  const bool limited = kbps_.load(std::memory_order_relaxed) != 0;
  const uint64_t own = limited ? free_at_ns_.load(std::memory_order_relaxed) : 0;
  return parent_ ? std::max(own, parent_->free_at_ns()) : own;
}

void RateLimit::charge(uint64_t bytes, uint64_t now_ns) {
  if (const uint64_t kbps = kbps_.load(std::memory_order_relaxed)) {
    const uint32_t burst = burst_bytes_.load(std::memory_order_relaxed);
    const uint64_t counts_ns = burst != 0 ? takes_ns(burst, kbps) : kPauseCountsNs;
    const uint64_t more_ns = takes_ns(bytes, kbps);
    uint64_t before = free_at_ns_.load(std::memory_order_relaxed), after = 0;
    do after = std::max(before, now_ns - std::min(now_ns, counts_ns)) + more_ns;
    while (!free_at_ns_.compare_exchange_weak(before, after, std::memory_order_relaxed));
  }
  if (parent_) parent_->charge(bytes, now_ns);
}

}  // namespace verbatim::engine
