// SPDX-License-Identifier: MIT
#include "device/connectx/scheduling.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace verbatim::connectx {
namespace {

class Scheduling : public testing::Test {
 protected:
  Scheduling() {
    limits_.log_max_scheduling_leaves = 2;
    limits_.pacing_entries = 3;
    limits_.pacing_min_kbps = 10;
    limits_.pacing_max_kbps = 1000;
  }
  hw::Limits limits_;
  SchedulingTree tree_{limits_};
  PacingTable table_{limits_};
};

TEST_F(Scheduling, TreesGrowFromARoot) {
  const auto root = tree_.create({});
  ASSERT_TRUE(root);
  const auto node = tree_.create({false, *root, 5, 100});
  const auto leaf = tree_.create({true, *node, 1, 0});
  ASSERT_TRUE(node && leaf);
  EXPECT_EQ(tree_.create({true, 0, 0, 0}).error().code, EINVAL) << "a leaf without a parent";
  EXPECT_EQ(tree_.create({false, 0, 1, 0}).error().code, EINVAL) << "a root with a share";
  EXPECT_EQ(tree_.create({false, *leaf, 0, 0}).error().code, EINVAL) << "below a leaf";
  EXPECT_EQ(tree_.create({false, 999, 0, 0}).error().code, ENOENT);
  EXPECT_EQ(tree_.destroy(*node).error().code, EBUSY);
  EXPECT_EQ(tree_.modify(*root, hw::Hca::kRate, {}).error().code, EINVAL);
  EXPECT_TRUE(tree_.modify(*leaf, hw::Hca::kRate | hw::Hca::kShare, {true, 0, 3, 4}));
  EXPECT_TRUE(tree_.destroy(*leaf));
  EXPECT_TRUE(tree_.destroy(*node));
  EXPECT_TRUE(tree_.destroy(*root));
  EXPECT_EQ(tree_.destroy(*root).error().code, ENOENT);
}

TEST_F(Scheduling, LeavesAreCounted) {
  const auto root = tree_.create({});
  uint32_t last = 0;
  for (int i = 0; i < 4; i++) last = *tree_.create({true, *root, 0, 0});
  EXPECT_EQ(tree_.create({true, *root, 0, 0}).error().code, ENOMEM);
  EXPECT_TRUE(tree_.destroy(last));
  EXPECT_TRUE(tree_.create({true, *root, 0, 0}));
}

TEST_F(Scheduling, RatesAreSharedUnlessDedicated) {
  const auto first = table_.take({100, 0, 0}, false), second = table_.take({100, 0, 0}, false);
  const auto own = table_.take({100, 0, 0}, true), other = table_.take({200, 0, 0}, false);
  ASSERT_TRUE(first && second && own && other);
  EXPECT_EQ(*first, *second);
  EXPECT_NE(*first, *own);
  EXPECT_GT(*first, 0);
  EXPECT_EQ(table_.take({300, 0, 0}, false).error().code, ENOSPC);
  EXPECT_TRUE(table_.give_back(*first));
  EXPECT_TRUE(table_.has(*first));
  EXPECT_FALSE(table_.has(0));
  EXPECT_EQ(table_.take({300, 0, 0}, false).error().code, ENOSPC) << "still used once";
  EXPECT_TRUE(table_.give_back(*first));
  EXPECT_TRUE(table_.take({300, 0, 0}, false));
  EXPECT_EQ(table_.give_back(99).error().code, ENOENT);
}

TEST_F(Scheduling, RatesHaveBounds) {
  EXPECT_EQ(table_.take({9, 0, 0}, false).error().code, EINVAL);
  EXPECT_EQ(table_.take({1001, 0, 0}, false).error().code, EINVAL);
  EXPECT_EQ(table_.take({100, 1, 0}, false).error().code, EINVAL);
  EXPECT_EQ(table_.take({100, 0, 1}, false).error().code, EINVAL);
}

}  // namespace
}  // namespace verbatim::connectx
