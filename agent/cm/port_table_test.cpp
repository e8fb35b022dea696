// SPDX-License-Identifier: MIT
#include "agent/cm/port_table.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace verbatim::agent::cm {
namespace {

using roce::cm::PortSpace;

SocketAddress v4(const char* text, uint16_t port) {
  SocketAddress address{AF_INET, port, 0, 0, {}};
  address.address.bytes[10] = address.address.bytes[11] = 0xff;
  inet_pton(AF_INET, text, &address.address.bytes[12]);
  return address;
}

SocketAddress v6(const char* text, uint16_t port) {
  SocketAddress address{AF_INET6, port, 0, 0, {}};
  inet_pton(AF_INET6, text, address.address.bytes.data());
  return address;
}

PortTable::Claim tcp(SocketAddress source) {
  return {PortSpace::kTcp, source, false, source.family == AF_INET, false};
}

class PortTableTest : public ::testing::Test {
 protected:
  /// The error, 0 for none.
  int claim(PortTable::Owner owner, const PortTable::Claim& claim) {
    const auto port = table_.claim(owner, claim, {}, 7);
    return port ? 0 : port.error().code;
  }
  int listen(PortTable::Owner owner) {
    const Outcome listening = table_.listen(owner);
    return listening ? 0 : listening.error().code;
  }
  PortTable table_;
};

TEST_F(PortTableTest, OneOwnerPerAddress) {
  EXPECT_EQ(0, claim(1, tcp(v4("10.0.0.1", 80))));
  EXPECT_EQ(EADDRINUSE, claim(2, tcp(v4("10.0.0.1", 80))));
  EXPECT_EQ(0, claim(2, tcp(v4("10.0.0.2", 80))));
  EXPECT_EQ(EADDRNOTAVAIL, claim(3, tcp(v4("0.0.0.0", 80))));
  EXPECT_EQ(0, claim(3, tcp(v4("0.0.0.0", 81))));
  EXPECT_EQ(EADDRNOTAVAIL, claim(4, tcp(v4("10.0.0.1", 81))));
  table_.release(1);
  EXPECT_EQ(0, claim(4, tcp(v4("10.0.0.1", 80))));
}

TEST_F(PortTableTest, SpacesKeepToThemselves) {
  EXPECT_EQ(0, claim(1, tcp(v4("0.0.0.0", 80))));
  PortTable::Claim udp = tcp(v4("0.0.0.0", 80));
  udp.space = PortSpace::kUdp;
  EXPECT_EQ(0, claim(2, udp));
}

TEST_F(PortTableTest, FamiliesShareAPortOnlyWhenBothSaySo) {
  PortTable::Claim six = tcp(v6("::", 80));
  EXPECT_EQ(0, claim(1, six));
  EXPECT_EQ(EADDRNOTAVAIL, claim(2, tcp(v4("0.0.0.0", 80))));
  table_.release(1);
  six.family_only = true;
  EXPECT_EQ(0, claim(1, six));
  EXPECT_EQ(0, claim(2, tcp(v4("0.0.0.0", 80))));
}

TEST_F(PortTableTest, ReuseIsForThoseWhoDoNotListen) {
  PortTable::Claim mine = tcp(v4("10.0.0.1", 80));
  mine.reuse_address = true;
  EXPECT_EQ(0, claim(1, mine));
  EXPECT_EQ(0, claim(2, mine));
  EXPECT_EQ(EADDRINUSE, listen(1)) << "the other one is there, too";
  table_.release(2);
  EXPECT_EQ(0, listen(1));
  EXPECT_EQ(EADDRINUSE, claim(2, mine));
}

TEST_F(PortTableTest, FreePortsComeFromTheRange) {
  const PortTable::Range range{40000, 40002};
  for (PortTable::Owner owner = 1; owner <= 3; owner++) {
    const auto port = table_.claim(owner, tcp(v4("0.0.0.0", 0)), range, 5);
    ASSERT_TRUE(port);
    EXPECT_GE(*port, range.first);
    EXPECT_LE(*port, range.last);
  }
  const auto none = table_.claim(4, tcp(v4("0.0.0.0", 0)), range, 5);
  ASSERT_FALSE(none);
  EXPECT_EQ(EADDRNOTAVAIL, none.error().code);
  table_.release(1);
  EXPECT_TRUE(table_.claim(4, tcp(v4("0.0.0.0", 0)), range, 5));
}

TEST_F(PortTableTest, ListenersAreFoundByAddressThenByWildcard) {
  ASSERT_EQ(0, claim(1, tcp(v4("10.0.0.1", 80))));
  EXPECT_EQ(0u, table_.listener(PortSpace::kTcp, v4("10.0.0.1", 80))) << "bound only";
  ASSERT_EQ(0, listen(1));
  EXPECT_EQ(1u, table_.listener(PortSpace::kTcp, v4("10.0.0.1", 80)));
  EXPECT_EQ(0u, table_.listener(PortSpace::kTcp, v4("10.0.0.2", 80)));
  EXPECT_EQ(0u, table_.listener(PortSpace::kUdp, v4("10.0.0.1", 80)));
  ASSERT_EQ(0, claim(2, tcp(v6("::", 90))));
  ASSERT_EQ(0, listen(2));
  EXPECT_EQ(2u, table_.listener(PortSpace::kTcp, v4("10.0.0.2", 90)));
  EXPECT_EQ(2u, table_.listener(PortSpace::kTcp, v6("fd00::1", 90)));
  PortTable::Claim only = tcp(v6("::", 91));
  only.family_only = true;
  ASSERT_EQ(0, claim(3, only));
  ASSERT_EQ(0, listen(3));
  EXPECT_EQ(0u, table_.listener(PortSpace::kTcp, v4("10.0.0.2", 91)));
}

}  // namespace
}  // namespace verbatim::agent::cm
