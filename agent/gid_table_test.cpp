// SPDX-License-Identifier: MIT
#include "agent/gid_table.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "agent/test_member.h"
#include "testing/private_network.h"

namespace verbatim::agent {
namespace {

using testing_support::run_in_private_network;
using testing_support::set_interface;

engine::GidEntry entry(uint8_t last, GidType type = GidType::kRoceV2) {
  engine::GidEntry made;
  made.gid.bytes[15] = last;
  made.type = type;
  return made;
}

TEST(GidTable, KeepsEntriesInPlace) {
  engine::GidEntry table[kGidsMax];
  uint32_t count = 0;
  EXPECT_TRUE(merge_gids(table, count, {entry(1), entry(2), entry(3)}));
  EXPECT_FALSE(merge_gids(table, count, {entry(1), entry(2), entry(3)}));
  EXPECT_TRUE(merge_gids(table, count, {entry(1), entry(3)}));
  EXPECT_TRUE(table[1].gid.is_zero());
  EXPECT_TRUE(merge_gids(table, count, {entry(1), entry(3), entry(9)}));
  EXPECT_EQ(9, table[1].gid.bytes[15]);
  EXPECT_EQ(3u, count);
}

TEST(GidTable, OrdersLinkLocalThenIpv4AndLoopbackLast) {
  const auto address = [](const char* name, uint32_t index, bool loopback,
                          std::initializer_list<uint8_t> start) {
    Address made;
    made.interface = name;
    made.interface_index = index;
    made.loopback = loopback;
    std::copy(start.begin(), start.end(), made.gid.bytes.begin());
    return made;
  };
  const std::initializer_list<uint8_t> v4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  const auto table = gid_order({address("lo", 1, true, v4), address("eth0", 2, false, {0xfd}),
                                address("eth0", 2, false, v4), address("eth0", 2, false, {0xfe, 0x80})});
  ASSERT_EQ(8u, table.size());
  EXPECT_EQ(0xfe, table[0].gid.bytes[0]);
  EXPECT_TRUE(table[1].gid.is_ipv4_mapped());
  EXPECT_EQ(2u, table[1].interface_index);
  EXPECT_EQ(0xfd, table[2].gid.bytes[0]);
  EXPECT_EQ(1u, table[3].interface_index);
  EXPECT_EQ(GidType::kRoceV1, table[4].type);
}

Gid ipv4(std::initializer_list<uint8_t> address) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  std::copy(address.begin(), address.end(), gid.bytes.begin() + 12);
  return gid;
}

TEST(GidTable, ALoopbackOnlyHostHasALinkLocalEntry) {
  Address lo;
  lo.loopback = true;
  lo.gid = ipv4({127, 0, 0, 1});
  const auto table = gid_order({lo});
  ASSERT_EQ(4u, table.size());
  EXPECT_TRUE(
      std::any_of(table.begin(), table.begin() + 2, [](const auto& e) { return e.gid.bytes[0] == 0xfe; }));
}

class GidsOfAHost : public AgentTest {};

/// In a network of its own. The number of the step that failed.
int follow_addresses(const std::function<bool(std::function<bool()>)>& eventually) {
  constexpr uint8_t kAddress[] = {10, 9, 9, 9};
  Member a;
  if (!a.client) return 1;
  const auto holds = [&](const Gid& gid) { return a.client->is_local(gid); };
  if (a.client->gid_count() == 0 || a.client->gid(0).gid.bytes[0] != 0xfe) return 2;
  if (holds(ipv4({127, 0, 0, 1}))) return 3;
  Notices notices;
  const auto follows = [&](const Gid& gid, bool wanted) {
    notices.changes = 0;
    return eventually([&] {
      a.client->handle_notices(notices);
      return holds(gid) == wanted && notices.changes > 0;
    });
  };
  if (!set_interface("lo", IFF_UP, nullptr) || !follows(ipv4({127, 0, 0, 1}), true)) return 4;
  uint32_t index = 0;
  while (!(a.client->gid(index).gid == ipv4({127, 0, 0, 1}))) index++;
  if (!set_interface("lo:1", IFF_UP, kAddress) || !follows(ipv4({10, 9, 9, 9}), true)) return 5;
  if (!(a.client->gid(index).gid == ipv4({127, 0, 0, 1}))) return 6;
  if (!set_interface("lo:1", 0, nullptr) || !follows(ipv4({10, 9, 9, 9}), false)) return 7;
  return a.client->gid(index).gid == ipv4({127, 0, 0, 1}) ? 0 : 8;
}

TEST_F(GidsOfAHost, FollowAddresses) {
  run_in_private_network([this] {
    const int result = follow_addresses([](const std::function<bool()>& holds) { return eventually(holds); });
    const pid_t agent = agent_pid();
    if (agent > 0) kill(agent, SIGKILL);
    return result;
  });
}

}  // namespace
}  // namespace verbatim::agent
