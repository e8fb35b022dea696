// SPDX-License-Identifier: MIT
#include "engine/rate_limit.h"

#include <gtest/gtest.h>

namespace verbatim::engine {
namespace {

constexpr uint64_t kStartNs = 1'000'000'000;

/// Bytes that leave in a second when 1000 at a time are sent as early as allowed.
uint64_t bytes_in_a_second(RateLimit& limit) {
  uint64_t now = kStartNs, sent = 0;
  while (now < kStartNs + 1'000'000'000) {
    limit.charge(1000, now);
    sent += 1000;
    now = std::max(now, limit.free_at_ns());
  }
  return sent;
}

TEST(RateLimits, AverageOverTime) {
  RateLimit limit;
  limit.set_mbps(80);
  EXPECT_NEAR(static_cast<double>(bytes_in_a_second(limit)), 10e6, 10e3);
}

TEST(RateLimits, NoneLetsEverythingPass) {
  RateLimit limit;
  limit.charge(1u << 30, kStartNs);
  EXPECT_EQ(limit.free_at_ns(), 0u);
}

TEST(RateLimits, TheNarrowestOfThePathCounts) {
  const auto root = std::make_shared<RateLimit>();
  RateLimit one(root), two(root);
  root->set_mbps(8);
  one.set_mbps(80);
  EXPECT_NEAR(static_cast<double>(bytes_in_a_second(one)), 1e6, 10e3);
  EXPECT_GT(two.free_at_ns(), kStartNs) << "what one sends is missing for the other";
}

TEST(RateLimits, APauseIsNotSaved) {
  RateLimit limit;
  limit.set_mbps(8);
  limit.charge(1000, kStartNs);
  limit.charge(1000, kStartNs + 10'000'000'000);
  EXPECT_GT(limit.free_at_ns(), kStartNs + 10'000'000'000);
}

TEST(RateLimits, CanBeLifted) {
  RateLimit limit;
  limit.set_mbps(1);
  limit.charge(1u << 20, kStartNs);
  EXPECT_GT(limit.free_at_ns(), kStartNs);
  limit.set_mbps(0);
  EXPECT_EQ(limit.free_at_ns(), 0u);
}

}  // namespace
}  // namespace verbatim::engine
