// SPDX-License-Identifier: MIT
#include "agent/device_config.h"

#include <gtest/gtest.h>

namespace verbatim::agent {
namespace {

TEST(DeviceConfig, UnderstandsWhatIsDocumented) {
  EXPECT_EQ("mlx5_0", parse_devices("")->at(0).name);
  EXPECT_EQ(3u, parse_devices("3")->size());
  EXPECT_EQ("b", parse_devices("a,b:mlx5")->at(1).name);
  EXPECT_EQ(0u, parse_devices("0")->size());
  for (const char* bad :
       {"a,,b", "a:mlx9", "a,a", "33", "1000", "99999999999999999999", "-1", "..", "a/b", ","})
    EXPECT_FALSE(parse_devices(bad)) << bad;
}

TEST(DeviceConfig, TakesOptions) {
  const auto devices = parse_devices("a:mlx5:lag,b:mlx5:data-direct:lag,c");
  ASSERT_TRUE(devices) << devices.error().reason;
  EXPECT_TRUE(devices->at(0).lag);
  EXPECT_FALSE(devices->at(0).data_direct);
  EXPECT_TRUE(devices->at(1).lag && devices->at(1).data_direct);
  EXPECT_FALSE(devices->at(2).lag || devices->at(2).data_direct);
  const auto refused = parse_devices("a:mlx5:turbo");
  ASSERT_FALSE(refused);
  EXPECT_NE(std::string::npos,
            refused.error().reason.find("data-direct, lag, infiniband, pkeys=0x8001+0x2..., tap=NAME"))
      << refused.error().reason;
  EXPECT_FALSE(parse_devices("a:lag"));
  EXPECT_TRUE(parse_devices("a:mlx5:infiniband")->at(0).infiniband);
  EXPECT_EQ((std::vector<uint16_t>{0x8001, 2}),
            parse_devices("a:mlx5:infiniband:pkeys=0x8001+2")->at(0).pkeys);
  for (const char* wrong : {"a:mlx5:pkeys=1", "a:mlx5:infiniband:pkeys=", "a:mlx5:infiniband:pkeys=0x8000",
                            "a:mlx5:infiniband:pkeys=1+", "a:mlx5:infiniband:pkeys=65536",
                            "a:mlx5:infiniband:pkeys=1:pkeys=2", "a:mlx5:infiniband:pkeys=1+2+3+4+5+6+7+8+9"})
    EXPECT_FALSE(parse_devices(wrong)) << wrong;
  EXPECT_FALSE(parse_devices("a:mlx5:infiniband:lag")) << "a LAG is of Ethernet ports";
  EXPECT_EQ(parse_devices("a:mlx5:lag:tap=frames0")->at(0).outlet, "tap=frames0");
  EXPECT_EQ(parse_devices("a:mlx5:interface=eth0.7")->at(0).outlet, "interface=eth0.7");
  for (const char* wrong : {"a:mlx5:tap=", "a:mlx5:tap=0", "a:mlx5:tap=sixteen-letters-", "a:mlx5:tap=a/b",
                            "a:mlx5:infiniband:tap=t", "a:mlx5:tap=t:tap=u"})
    EXPECT_FALSE(parse_devices(wrong)) << wrong;
}

TEST(DeviceConfig, SaysWhichKindsThereAre) {
  const auto refused = parse_devices("a:efa");
  ASSERT_FALSE(refused);
  EXPECT_EQ(EINVAL, refused.error().code);
  EXPECT_NE(std::string::npos, refused.error().reason.find("the kinds are: mlx5")) << refused.error().reason;
}

}  // namespace
}  // namespace verbatim::agent
