// SPDX-License-Identifier: MIT
// The simulated world tests the stack; this tests the simulated world.
#include <gtest/gtest.h>

#include "testing/simulation/world.h"

namespace verbatim::simulation {
namespace {

TEST(Simulation, OneSeedIsOneRun) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    const Verdict once = play({seed});
    EXPECT_TRUE(once.passed) << once.finding;
    EXPECT_EQ(once.digest, play({seed}).digest) << seed;
    EXPECT_NE(once.digest, play({seed + 1000}).digest) << seed;
  }
}

/// How many of some seeds the checkers find wrong with a stack that has been tampered with.
uint32_t found(Sabotage sabotage, const char* what) {
  uint32_t count = 0;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    const Verdict verdict = play({seed, sabotage, 10});
    if (verdict.passed) continue;
    count++;
    EXPECT_NE(std::string::npos, verdict.finding.find(what)) << verdict.finding << verdict.trace;
    EXPECT_FALSE(verdict.trace.empty());
  }
  return count;
}

TEST(Canary, BytesThatChangeAreNoticed) { EXPECT_GT(found(Sabotage::kFlipAfterCheck, "byte"), 5u); }
TEST(Canary, FalseAcknowledgementsAreNoticed) { EXPECT_GT(found(Sabotage::kFalseAcknowledge, ""), 5u); }
TEST(Canary, MessagesThatComeTwiceAreNoticed) { EXPECT_GT(found(Sabotage::kTwoReceives, ""), 5u); }
TEST(Canary, AtomicsThatAreRepeatedAreNoticed) { EXPECT_GT(found(Sabotage::kRepeatAtomic, ""), 5u); }
TEST(Canary, WorkThatNeverEndsIsNoticed) {
  EXPECT_GT(found(Sabotage::kLoseForEver, "do not come to an end"), 5u);
}
TEST(Canary, CompletionsThatAreNotToldAreNoticed) { EXPECT_GT(found(Sabotage::kSwallowCompletion, ""), 5u); }

}  // namespace
}  // namespace verbatim::simulation
