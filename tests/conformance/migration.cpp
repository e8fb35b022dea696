// SPDX-License-Identifier: MIT
// Alternate paths of connections, through the public interface.
#include <cerrno>
#include <chrono>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

/// Names the present path as the alternate one, too.
int rearm(Endpoint& self) {
  ibv_qp_attr now{}, wanted{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(ibv_query_qp(self.qp, &now, IBV_QP_AV, &made), 0);
  wanted.alt_ah_attr = now.ah_attr;
  wanted.alt_port_num = 1;
  wanted.alt_timeout = 14;
  wanted.path_mig_state = IBV_MIG_REARM;
  return ibv_modify_qp(self.qp, &wanted, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

int migrate(Endpoint& self) {
  ibv_qp_attr wanted{};
  wanted.path_mig_state = IBV_MIG_MIGRATED;
  return ibv_modify_qp(self.qp, &wanted, IBV_QP_PATH_MIG_STATE);
}

ibv_mig_state state_of(const Endpoint& self) {
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(ibv_query_qp(self.qp, &now, IBV_QP_PATH_MIG_STATE, &made), 0);
  return now.path_mig_state;
}

/// The device may take a moment to get there.
void expect_state(const Endpoint& self, ibv_mig_state wanted) {
  ibv_wc none{};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (state_of(self) != wanted && std::chrono::steady_clock::now() < end) ibv_poll_cq(self.cq, 0, &none);
  EXPECT_EQ(state_of(self), wanted);
}

void pass_message(Endpoint& from, Endpoint& to) {
  EXPECT_EQ(to.receive(0, 100), 0);
  EXPECT_EQ(from.post(from.request(IBV_WR_SEND, 100)), 0);
  EXPECT_EQ(from.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(to.wait_status(), IBV_WC_SUCCESS);
}

TEST(Migration, ArmsAndMovesBothEnds) {
  Pair pair;
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(pair.left.context, &device), 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG, 0u);
  EXPECT_EQ(state_of(pair.left), IBV_MIG_MIGRATED);
  ibv_qp_attr wanted{};
  wanted.path_mig_state = IBV_MIG_REARM;
  EXPECT_EQ(ibv_modify_qp(pair.left.qp, &wanted, IBV_QP_PATH_MIG_STATE), EINVAL) << "to where?";
  ASSERT_EQ(rearm(pair.left), 0);
  pass_message(pair.left, pair.right);
  EXPECT_EQ(state_of(pair.left), IBV_MIG_REARM) << "the peer has no other path";
  ASSERT_EQ(rearm(pair.right), 0);
  pass_message(pair.left, pair.right);
  pass_message(pair.right, pair.left);
  expect_state(pair.left, IBV_MIG_ARMED);
  expect_state(pair.right, IBV_MIG_ARMED);
  ASSERT_EQ(migrate(pair.left), 0);
  EXPECT_EQ(pair.left.next_event(), IBV_EVENT_PATH_MIG);
  EXPECT_EQ(state_of(pair.left), IBV_MIG_MIGRATED);
  pass_message(pair.left, pair.right);
  EXPECT_EQ(pair.right.next_event(), IBV_EVENT_PATH_MIG) << "its peer has migrated";
  EXPECT_EQ(state_of(pair.right), IBV_MIG_MIGRATED);
  pass_message(pair.right, pair.left);
  EXPECT_TRUE(pair.left.no_event());
}

}  // namespace
}  // namespace verbatim::conformance
