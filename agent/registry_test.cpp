// SPDX-License-Identifier: MIT
// The agent's state apart from its sockets.
#include "agent/registry.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>

namespace verbatim::agent {
namespace {

class RegistryTest : public ::testing::Test {
 protected:
  bool is_member(const Gid& group, uint32_t slot) const {
    for (uint32_t i = 0; i < directory_->group_count; i++)
      if (directory_->groups[i].group == group)
        return directory_->groups[i].members[slot / 64] >> (slot % 64) & 1;
    return false;
  }
  static Gid group(uint32_t number) {
    Gid gid;
    gid.bytes = {0xff, 0x0e};
    gid.bytes[14] = static_cast<uint8_t>(number >> 8);
    gid.bytes[15] = static_cast<uint8_t>(number);
    return gid;
  }
  std::set<uint32_t> owned_;  ///< by processes that the registry has not met
  std::unique_ptr<Directory> directory_ = std::make_unique<Directory>();
  Registry registry_{*directory_, 100, [this](uint32_t slot) { return owned_.count(slot) > 0; }};
};

TEST_F(RegistryTest, GivesSlotsInTurnAndLetsThemRest) {
  const auto first = registry_.join(7);
  ASSERT_TRUE(first);
  EXPECT_EQ(1u, first->slot);
  EXPECT_EQ(100u, first->generation);
  EXPECT_EQ(100u, directory_->slots[1].generation);
  EXPECT_EQ(7u, directory_->slots[1].pid);
  EXPECT_EQ(1u, directory_->slots[1].primary);
  registry_.leave(1);
  EXPECT_EQ(0u, directory_->slots[1].generation);
  for (uint32_t slot = 2; slot < wire::kSlotsMax; slot++) {
    const auto next = registry_.join(8);
    ASSERT_TRUE(next);
    EXPECT_EQ(slot, next->slot);
    EXPECT_EQ(99u + slot, next->generation);
  }
  EXPECT_EQ(1u, registry_.join(9)->slot) << "after all the others";
  EXPECT_EQ(ENOMEM, registry_.join(9).error().code);
}

TEST_F(RegistryTest, DoesNotGiveWhatALivingProcessHolds) {
  owned_ = {1, 3};
  EXPECT_EQ(2u, registry_.join(7)->slot);
  EXPECT_EQ(4u, registry_.join(7)->slot);
  ASSERT_TRUE(registry_.rejoin(5, 1, 50));
  EXPECT_EQ(50u, directory_->slots[1].generation);
  EXPECT_EQ(EBUSY, registry_.rejoin(6, 1, 51).error().code);
  EXPECT_EQ(EBUSY, registry_.rejoin(6, 2, 51).error().code);
}

TEST_F(RegistryTest, GenerationsStayAheadOfWhatIsClaimed) {
  ASSERT_TRUE(registry_.rejoin(5, 9, 5000));
  EXPECT_GT(registry_.join(7)->generation, 5000u);
  for (const uint64_t claim : {uint64_t{0}, UINT64_MAX, UINT64_MAX - 1})
    EXPECT_EQ(EINVAL, registry_.rejoin(5, 10, claim).error().code);
  for (const uint32_t slot : {0u, wire::kSlotsMax, UINT32_MAX})
    EXPECT_EQ(EINVAL, registry_.rejoin(5, slot, 1).error().code);
}

TEST_F(RegistryTest, FurtherSlotsBelongToTheFirst) {
  const auto process = registry_.join(7);
  const auto other = registry_.join(8);
  const auto extra = registry_.extra(process->slot, 0);
  ASSERT_TRUE(extra);
  EXPECT_EQ(process->generation, extra->generation);
  EXPECT_EQ(process->slot, directory_->slots[extra->slot].primary);
  EXPECT_EQ(EBUSY, registry_.extra(process->slot, other->slot).error().code);
  EXPECT_EQ(EINVAL, registry_.extra(process->slot, wire::kSlotsMax).error().code);
  uint32_t had = 2;
  while (registry_.extra(process->slot, 0)) had++;
  EXPECT_EQ(ENOSPC, registry_.extra(process->slot, 0).error().code);
  EXPECT_LT(had, 20u) << "one process cannot take them all";
  registry_.leave(process->slot);
  uint32_t left = 0;
  for (const DirectorySlot& slot : directory_->slots) left += slot.generation != 0;
  EXPECT_EQ(1u, left);
}

TEST_F(RegistryTest, GroupsForgetWhoLeaves) {
  const uint32_t a = registry_.join(7)->slot, b = registry_.join(8)->slot;
  ASSERT_TRUE(registry_.join_group(a, group(1)));
  ASSERT_TRUE(registry_.join_group(a, group(1)));
  ASSERT_TRUE(registry_.join_group(b, group(1)));
  ASSERT_TRUE(registry_.join_group(b, group(2)));
  EXPECT_TRUE(is_member(group(1), a) && is_member(group(1), b) && is_member(group(2), b));
  EXPECT_FALSE(is_member(group(2), a));
  registry_.leave_group(a, group(1));
  registry_.leave_group(a, group(2));
  EXPECT_FALSE(is_member(group(1), a));
  EXPECT_TRUE(is_member(group(1), b));
  registry_.leave(b);
  EXPECT_FALSE(is_member(group(1), b) || is_member(group(2), b));
  EXPECT_EQ(0u, directory_->group_sequence % 2);
}

TEST_F(RegistryTest, EmptyGroupsMakeRoom) {
  const uint32_t a = registry_.join(7)->slot;
  for (uint32_t i = 0; i < kGroupsMax; i++) ASSERT_TRUE(registry_.join_group(a, group(i)));
  EXPECT_EQ(ENOSPC, registry_.join_group(a, group(kGroupsMax)).error().code);
  registry_.leave_group(a, group(500));
  ASSERT_TRUE(registry_.join_group(a, group(kGroupsMax)));
  EXPECT_TRUE(is_member(group(kGroupsMax), a));
  EXPECT_FALSE(is_member(group(500), a));
}

}  // namespace
}  // namespace verbatim::agent
