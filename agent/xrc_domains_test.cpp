// SPDX-License-Identifier: MIT
#include "agent/xrc_domains.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace verbatim::agent {
namespace {

constexpr XrcName kFile{0, {1, 2}}, kOther{0, {1, 3}}, kOnOtherDevice{1, {1, 2}};

int error_of(const Expected<uint64_t>& opened) { return opened ? 0 : opened.error().code; }

TEST(XrcDomains, AreOfAFileAndADevice) {
  XrcDomains domains(100);
  EXPECT_EQ(error_of(domains.open(1, kFile, false, false)), EAGAIN);
  const auto first = domains.open(1, kFile, true, true);
  ASSERT_TRUE(first.ok());
  EXPECT_NE(*first, 0u);
  EXPECT_EQ(error_of(domains.open(2, kFile, true, true)), EINVAL);
  EXPECT_EQ(*domains.open(2, kFile, false, false), *first);
  EXPECT_NE(*domains.open(2, kOther, true, false), *first);
  EXPECT_NE(*domains.open(2, kOnOtherDevice, true, false), *first);
  EXPECT_EQ(domains.size(), 3u);
}

TEST(XrcDomains, EndWithTheLastWhoHasThemOpen) {
  XrcDomains domains(UINT64_MAX);
  const uint64_t identity = *domains.open(1, kFile, true, false);
  EXPECT_EQ(*domains.open(1, kFile, true, false), identity);
  EXPECT_EQ(*domains.open(2, kFile, true, false), identity);
  domains.close(1, identity);
  domains.close(3, identity);  // who has not opened it
  domains.leave(2);
  EXPECT_EQ(*domains.open(2, kFile, false, false), identity);
  domains.close(1, identity);
  domains.close(2, identity);
  EXPECT_EQ(domains.size(), 0u);
  EXPECT_NE(*domains.open(1, kFile, true, false), identity) << "it is another one now";
}

TEST(XrcDomains, ComeBackFromAnEarlierAgent) {
  XrcDomains domains(7);
  EXPECT_TRUE(domains.take_back(1, kFile, 55).ok());
  EXPECT_TRUE(domains.take_back(2, kFile, 55).ok());
  EXPECT_EQ(*domains.open(3, kFile, false, false), 55u);
  EXPECT_EQ(domains.take_back(4, kFile, 56).error().code, EBUSY);
  EXPECT_EQ(domains.take_back(4, kOther, 0).error().code, EINVAL);
  for (const uint32_t slot : {1, 2, 3}) domains.leave(slot);
  EXPECT_EQ(domains.size(), 0u);
}

}  // namespace
}  // namespace verbatim::agent
