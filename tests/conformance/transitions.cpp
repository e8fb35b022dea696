// SPDX-License-Identifier: MIT
// The matrix of state changes: for every service type, pair of states and attribute, whether the change is
// legal. The tables below say it once more, apart from the code under test: ibv_modify_qp(3) for what is
// required, IBA 10.3.1 for what is allowed besides.
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

struct Rule {
  ibv_qp_type type;
  ibv_qp_state from, to;
  int required, optional;
};

constexpr auto RC = IBV_QPT_RC, UC = IBV_QPT_UC, UD = IBV_QPT_UD;
constexpr auto RESET = IBV_QPS_RESET, INIT = IBV_QPS_INIT, RTR = IBV_QPS_RTR, RTS = IBV_QPS_RTS,
               SQD = IBV_QPS_SQD, SQE = IBV_QPS_SQE, ERR = IBV_QPS_ERR;
constexpr int kWay = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kPeer = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kRunning =
    IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH;

constexpr Rule kRules[] = {
    {RC, RESET, INIT, kWay | IBV_QP_ACCESS_FLAGS, 0},
    {UC, RESET, INIT, kWay | IBV_QP_ACCESS_FLAGS, 0},
    {UD, RESET, INIT, kWay | IBV_QP_QKEY, 0},
    {RC, INIT, INIT, 0, kWay | IBV_QP_ACCESS_FLAGS},
    {UC, INIT, INIT, 0, kWay | IBV_QP_ACCESS_FLAGS},
    {UD, INIT, INIT, 0, kWay | IBV_QP_QKEY},
    {RC, INIT, RTR, kPeer | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_ALT_PATH},
    {UC, INIT, RTR, kPeer, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_ALT_PATH},
    {UD, INIT, RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {RC, RTR, RTS,
     IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
     kRunning | IBV_QP_MIN_RNR_TIMER},
    {UC, RTR, RTS, IBV_QP_SQ_PSN, kRunning},
    {UD, RTR, RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {RC, RTS, RTS, 0, kRunning | IBV_QP_MIN_RNR_TIMER},
    {UC, RTS, RTS, 0, kRunning},
    {UD, RTS, RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {RC, RTS, SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {UC, RTS, SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {UD, RTS, SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {RC, SQD, RTS, 0, kRunning | IBV_QP_MIN_RNR_TIMER},
    {UC, SQD, RTS, 0, kRunning},
    {UD, SQD, RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {RC, SQD, SQD, 0,
     IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
         IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
         IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH},
    {UC, SQD, SQD, 0,
     IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH},
    {UD, SQD, SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {UC, SQE, RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    {UD, SQE, RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

std::optional<Rule> rule_for(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  // From everywhere, with no attributes; but a queue pair in RESET has nothing that could fail.
  if (to == RESET || (to == ERR && from != RESET)) return Rule{type, from, to, 0, 0};
  for (const Rule& rule : kRules)
    if (rule.type == type && rule.from == from && rule.to == to) return rule;
  return std::nullopt;
}

/// Every attribute with a value that is good in itself.
ibv_qp_attr good_values(Endpoint& self, ibv_qp_state from, ibv_qp_state to) {
  ibv_qp_attr values{};
  values.qp_state = to;
  values.cur_qp_state = from;
  values.path_mtu = IBV_MTU_1024;
  values.qkey = kQkey;
  values.rq_psn = values.sq_psn = 7;
  values.dest_qp_num = self.qp->qp_num;
  values.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  values.ah_attr.is_global = 1;
  values.ah_attr.grh.dgid = self.contact().gid;
  values.ah_attr.port_num = 1;
  values.alt_ah_attr = values.ah_attr;
  values.alt_port_num = 1;
  values.port_num = 1;
  values.max_rd_atomic = values.max_dest_rd_atomic = 4;
  values.min_rnr_timer = 5;
  values.timeout = 14;
  values.retry_cnt = values.rnr_retry = 6;
  values.cap = {8, 8, 1, 1, 0};
  return values;
}

/// From RESET to `state` by the required attributes only; SQE by a send that fails.
void bring(Endpoint& self, ibv_qp_state state) {
  ASSERT_EQ(self.move(RESET), 0);
  const auto step = [&](ibv_qp_state from, ibv_qp_state to) {
    ibv_qp_attr values = good_values(self, from, to);
    const Rule rule = rule_for(self.traits.type, from, to).value();
    ASSERT_EQ(ibv_modify_qp(self.qp, &values, IBV_QP_STATE | rule.required), 0) << from << " to " << to;
  };
  if (state == RESET) return;
  step(RESET, INIT);
  if (state == ERR) return step(INIT, ERR);
  if (state == INIT) return;
  step(INIT, RTR);
  if (state == RTR) return;
  step(RTR, RTS);
  if (state == RTS) return;
  if (state == SQD) return step(RTS, SQD);
  if (self.ah == nullptr) {
    ibv_qp_attr values = good_values(self, RTS, RTS);
    self.ah = ibv_create_ah(self.pd, &values.ah_attr);
  }
  ibv_send_wr wr = self.request(IBV_WR_SEND, 8);
  wr.sg_list->lkey ^= 0xff00;
  ASSERT_EQ(self.post(wr), 0);
  ASSERT_EQ(self.wait_status(), IBV_WC_LOC_PROT_ERR);
  ASSERT_EQ(self.state(), SQE);
}

int attempt(Endpoint& self, ibv_qp_state from, ibv_qp_state to, int mask) {
  ibv_qp_attr values = good_values(self, from, to);
  return ibv_modify_qp(self.qp, &values, mask);
}

constexpr int kAttributes[] = {IBV_QP_CUR_STATE,
                               IBV_QP_EN_SQD_ASYNC_NOTIFY,
                               IBV_QP_ACCESS_FLAGS,
                               IBV_QP_PKEY_INDEX,
                               IBV_QP_PORT,
                               IBV_QP_QKEY,
                               IBV_QP_AV,
                               IBV_QP_PATH_MTU,
                               IBV_QP_TIMEOUT,
                               IBV_QP_RETRY_CNT,
                               IBV_QP_RNR_RETRY,
                               IBV_QP_RQ_PSN,
                               IBV_QP_SQ_PSN,
                               IBV_QP_MAX_QP_RD_ATOMIC,
                               IBV_QP_ALT_PATH,
                               IBV_QP_MIN_RNR_TIMER,
                               IBV_QP_PATH_MIG_STATE,
                               IBV_QP_MAX_DEST_RD_ATOMIC,
                               IBV_QP_CAP,
                               IBV_QP_DEST_QPN,
                               IBV_QP_RATE_LIMIT};

void check_refused(Endpoint& self, ibv_qp_state from, ibv_qp_state to, int mask) {
  EXPECT_EQ(attempt(self, from, to, mask), EINVAL)
      << "type " << self.traits.type << ": " << from << " to " << to << ", mask " << std::hex << mask;
  EXPECT_EQ(self.state(), from) << from << " to " << to << ", mask " << std::hex << mask;
}

void check_transition(Endpoint& self, ibv_qp_state from, ibv_qp_state to) {
  ASSERT_NO_FATAL_FAILURE(bring(self, from));
  const std::optional<Rule> rule = rule_for(self.traits.type, from, to);
  if (!rule) {
    check_refused(self, from, to, IBV_QP_STATE);
    for (const Rule& other : kRules)  // attributes that are right for another way do not help
      if (other.type == self.traits.type && other.to == to)
        check_refused(self, from, to, IBV_QP_STATE | other.required);
    return;
  }
  const int required = IBV_QP_STATE | rule->required;
  for (const int attribute : kAttributes) {
    if ((rule->required & attribute) != 0)
      check_refused(self, from, to, required & ~attribute);
    else if ((rule->optional & attribute) == 0)
      check_refused(self, from, to, required | attribute);
  }
  for (const int attribute : kAttributes) {
    if ((rule->optional & attribute) == 0) continue;
    EXPECT_EQ(attempt(self, from, to, required | attribute), 0)
        << "type " << self.traits.type << ": " << from << " to " << to << " with " << std::hex << attribute;
    EXPECT_EQ(self.state(), to);
    ASSERT_NO_FATAL_FAILURE(bring(self, from));
  }
  EXPECT_EQ(attempt(self, from, to, required), 0) << from << " to " << to;
  EXPECT_EQ(self.state(), to);
  ASSERT_NO_FATAL_FAILURE(bring(self, from));
  EXPECT_EQ(attempt(self, from, to, required | rule->optional), 0) << from << " to " << to;
}

class Transitions : public testing::TestWithParam<ibv_qp_type> {};
INSTANTIATE_TEST_SUITE_P(Types, Transitions, testing::Values(RC, UC, UD), [](const auto& info) {
  return info.param == RC ? "Rc" : info.param == UC ? "Uc" : "Ud";
});

TEST_P(Transitions, AreLegalWithTheirAttributesOnly) {
  Endpoint self({.type = GetParam()});
  for (const ibv_qp_state from : {RESET, INIT, RTR, RTS, SQD, SQE, ERR}) {
    if (from == SQE && GetParam() == RC) continue;  // a failed send of RC ends the queue pair
    for (const ibv_qp_state to : {RESET, INIT, RTR, RTS, SQD, SQE, ERR}) check_transition(self, from, to);
  }
}

// Without IBV_QP_STATE the state stays; what may change are the attributes that may on the way to itself.
TEST_P(Transitions, ChangeAttributesInPlace) {
  Endpoint self({.type = GetParam()});
  const int attribute = GetParam() == UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  for (const ibv_qp_state state : {INIT, RTS, SQD}) {
    ASSERT_NO_FATAL_FAILURE(bring(self, state));
    EXPECT_EQ(attempt(self, state, state, attribute), 0) << state;
    EXPECT_EQ(attempt(self, state, state, IBV_QP_DEST_QPN), EINVAL) << state;
    EXPECT_EQ(self.state(), state);
  }
  ASSERT_NO_FATAL_FAILURE(bring(self, RTR));
  EXPECT_EQ(attempt(self, RTR, RTR, attribute), EINVAL) << "there is no way from RTR to itself";
}

TEST(Transitions, TrustNoWrongCurrentState) {
  Endpoint self;
  ASSERT_NO_FATAL_FAILURE(bring(self, RTS));
  for (const ibv_qp_state claimed : {RESET, INIT, RTR, SQD, SQE, ERR})
    EXPECT_EQ(attempt(self, claimed, RTS, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL) << claimed;
  EXPECT_EQ(attempt(self, RTS, RTS, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
}

/// Tries one way with one value spoilt: refused, and nothing has changed.
template <class Spoil>
void expect_bad_value(Endpoint& self, ibv_qp_state from, ibv_qp_state to, int mask, Spoil spoil) {
  ibv_qp_attr values = good_values(self, from, to);
  spoil(values);
  ibv_qp_attr before{}, after{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(ibv_query_qp(self.qp, &before, 0, &made), 0);
  EXPECT_EQ(ibv_modify_qp(self.qp, &values, mask), EINVAL) << from << " to " << to;
  EXPECT_EQ(ibv_query_qp(self.qp, &after, 0, &made), 0);
  EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0) << from << " to " << to;
}

TEST(Transitions, RefuseBadValuesAndChangeNothing) {
  Endpoint self;
  const int to_init = IBV_QP_STATE | rule_for(RC, RESET, INIT)->required;
  expect_bad_value(self, RESET, INIT, to_init, [](ibv_qp_attr& v) { v.port_num = 0; });
  expect_bad_value(self, RESET, INIT, to_init, [](ibv_qp_attr& v) { v.port_num = 2; });
  expect_bad_value(self, RESET, INIT, to_init, [](ibv_qp_attr& v) { v.pkey_index = 1; });
  expect_bad_value(self, RESET, INIT, to_init, [](ibv_qp_attr& v) { v.qp_state = ibv_qp_state(99); });
  ASSERT_NO_FATAL_FAILURE(bring(self, INIT));
  const int to_rtr = IBV_QP_STATE | rule_for(RC, INIT, RTR)->required;
  expect_bad_value(self, INIT, RTR, to_rtr, [](ibv_qp_attr& v) { v.path_mtu = ibv_mtu(0); });
  expect_bad_value(self, INIT, RTR, to_rtr, [](ibv_qp_attr& v) { v.path_mtu = ibv_mtu(6); });
  expect_bad_value(self, INIT, RTR, to_rtr, [](ibv_qp_attr& v) { v.ah_attr.is_global = 0; });
  expect_bad_value(self, INIT, RTR, to_rtr, [](ibv_qp_attr& v) { v.ah_attr.port_num = 0; });
  expect_bad_value(self, INIT, RTR, to_rtr, [](ibv_qp_attr& v) { v.ah_attr.grh.sgid_index = 255; });
  expect_bad_value(self, INIT, RTR, to_rtr, [](ibv_qp_attr& v) { v.max_dest_rd_atomic = 255; });
  ASSERT_NO_FATAL_FAILURE(bring(self, RTR));
  const int to_rts = IBV_QP_STATE | rule_for(RC, RTR, RTS)->required;
  expect_bad_value(self, RTR, RTS, to_rts, [](ibv_qp_attr& v) { v.max_rd_atomic = 255; });
  expect_bad_value(self, RTR, RTS, to_rts, [](ibv_qp_attr& v) { v.retry_cnt = 8; });
  expect_bad_value(self, RTR, RTS, to_rts, [](ibv_qp_attr& v) { v.timeout = 32; });
}

TEST(Transitions, AreReadBack) {
  Endpoint self;
  ASSERT_NO_FATAL_FAILURE(bring(self, RTS));
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(ibv_query_qp(self.qp, &now, IBV_QP_STATE | IBV_QP_AV, &made), 0);
  EXPECT_EQ(now.qp_state, RTS);
  EXPECT_EQ(now.cur_qp_state, RTS);
  EXPECT_EQ(now.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(now.dest_qp_num, self.qp->qp_num);
  EXPECT_EQ(now.qp_access_flags, static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE));
  EXPECT_EQ(now.rq_psn, 7u);
  EXPECT_EQ(now.sq_psn, 7u);
  EXPECT_EQ(now.max_rd_atomic, 4);
  EXPECT_EQ(now.max_dest_rd_atomic, 4);
  EXPECT_EQ(now.min_rnr_timer, 5);
  EXPECT_EQ(now.timeout, 14);
  EXPECT_EQ(now.retry_cnt, 6);
  EXPECT_EQ(now.rnr_retry, 6);
  EXPECT_EQ(now.port_num, 1);
  EXPECT_EQ(now.ah_attr.port_num, 1);
  EXPECT_EQ(now.ah_attr.is_global, 1);
  const ibv_gid own = self.contact().gid;
  EXPECT_EQ(std::memcmp(&now.ah_attr.grh.dgid, &own, sizeof own), 0);
  EXPECT_EQ(now.sq_draining, 0);
  EXPECT_EQ(made.qp_type, IBV_QPT_RC);
  EXPECT_EQ(made.qp_context, &self);
  EXPECT_EQ(made.send_cq, self.cq);
  EXPECT_EQ(made.recv_cq, self.cq);
  EXPECT_GE(made.cap.max_send_wr, 64u);
  EXPECT_GE(made.cap.max_inline_data, 128u);
  EXPECT_EQ(ibv_query_qp_data_in_order(self.qp, IBV_WR_SEND, 0), 0);
  EXPECT_EQ(self.move(RESET), 0);
  EXPECT_EQ(ibv_query_qp(self.qp, &now, 0, &made), 0);
  EXPECT_EQ(now.qp_state, RESET);
  EXPECT_EQ(now.dest_qp_num, 0u);
}

}  // namespace
}  // namespace verbatim::conformance
