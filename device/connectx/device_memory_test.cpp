// SPDX-License-Identifier: MIT
#include "device/connectx/device_memory.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "engine/qp_types.h"

namespace verbatim::connectx {
namespace {

class DeviceMemories : public testing::Test {
 protected:
  DeviceMemories() { describe_device_memory(limits_); }
  hw::Limits limits_;
  DeviceMemory memory_{limits_};
};

TEST_F(DeviceMemories, LieApartAndAligned) {
  const auto first = memory_.create({hw::DmKind::kMemic, 100, 0});
  const auto second = memory_.create({hw::DmKind::kMemic, 64, 12});
  const auto third = memory_.create({hw::DmKind::kMemic, 64, 0});
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ((*first)->bytes, 100u);
  EXPECT_EQ((*second)->device_address % 4096, 0u);
  EXPECT_GE((*third)->device_address, (*first)->device_address + 128);
  EXPECT_NE((*third)->device_address, (*second)->device_address);
  const uint64_t place = (*first)->device_address;
  EXPECT_TRUE(memory_.destroy(*first));
  const auto again = memory_.create({hw::DmKind::kMemic, 128, 0});
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->device_address, place) << "its place is free again";
}

TEST_F(DeviceMemories, HaveAnEnd) {
  const uint64_t all = uint64_t{1} << limits_.dm[0].log_bytes;
  EXPECT_EQ(memory_.create({hw::DmKind::kMemic, all + 1, 0}).error().code, EINVAL);
  EXPECT_EQ(memory_.create({hw::DmKind::kMemic, 0, 0}).error().code, EINVAL);
  EXPECT_EQ(memory_.create({hw::DmKind::kMemic, 64, 13}).error().code, EINVAL);
  const auto whole = memory_.create({hw::DmKind::kMemic, all, 0});
  ASSERT_TRUE(whole);
  EXPECT_EQ(memory_.create({hw::DmKind::kMemic, 1, 0}).error().code, ENOMEM);
  EXPECT_TRUE(memory_.create({hw::DmKind::kEncapsulation, 1, 0})) << "each kind has its own";
  EXPECT_TRUE(memory_.destroy(*whole));
  EXPECT_TRUE(memory_.create({hw::DmKind::kMemic, 1, 0}));
}

TEST_F(DeviceMemories, TablesArePowersOfTwo) {
  const auto small = memory_.create({hw::DmKind::kSteering, 100, 0});
  const auto large = memory_.create({hw::DmKind::kSteering, 5 << 20, 0});
  ASSERT_TRUE(small && large);
  EXPECT_EQ((*large)->device_address % (8 << 20), 0u);
  EXPECT_EQ(memory_.create({hw::DmKind::kSteering, 1 << 27, 0}).error().code, ENOMEM);
}

TEST_F(DeviceMemories, RegistrationsStayWithin) {
  const auto dm = memory_.create({hw::DmKind::kSteering, 4096, 0});
  ASSERT_TRUE(dm);
  hw::MrSpec spec;
  spec.dm = *dm;
  spec.address = 4000;
  spec.length = 96;
  spec.access = engine::kRemoteRead | engine::kZeroBased;
  ASSERT_TRUE(locate_in_dm(spec));
  EXPECT_EQ(spec.address, reinterpret_cast<uint64_t>((*dm)->base) + 4000);
  spec.address = 4000;
  spec.length = 97;
  EXPECT_EQ(locate_in_dm(spec).error().code, EINVAL);
  spec.length = UINT64_MAX;
  EXPECT_EQ(locate_in_dm(spec).error().code, EINVAL);
  spec.length = 1;
  spec.access = engine::kRemoteAtomic;
  EXPECT_EQ(locate_in_dm(spec).error().code, EINVAL) << "tables know no atomics";
}

}  // namespace
}  // namespace verbatim::connectx
