// SPDX-License-Identifier: MIT
// Rules and raw packet queue pairs within one process: order of rules, refusals, states, errors.
#include "tests/conformance/frames.h"

namespace verbatim::conformance {
namespace {

constexpr Mac kTo{2, 9, 9, 9, 9, 9};
constexpr size_t kPlace = 8192;

/// Three queue pairs with receive requests, and one that sends.
class RawPacketRules : public testing::Test {
 protected:
  RawPacketRules() {
    for (Endpoint* each : {&one_, &two_, &sender_}) {
      EXPECT_EQ(each->connect({}), 0);
      for (int i = 0; i < 16; i++) EXPECT_EQ(each->receive(kPlace, 4096), 0);
    }
  }
  /// Which of the two queue pairs a frame comes to: bits 1 and 2.
  int who(const FrameTraits& frame) {
    send(sender_, frame_of(frame));
    int found = 0;
    for (Endpoint* each : {&one_, &two_}) {
      ibv_wc wc{};
      if (ibv_poll_cq(each->cq, 1, &wc) == 1) found |= each == &one_ ? 1 : 2;
      EXPECT_TRUE(each->quiet()) << "one copy each";
    }
    return found;
  }
  Endpoint one_{kFrames}, two_{kFrames}, sender_{kFrames};
};

TEST_F(RawPacketRules, TheLowestPriorityWins) {
  Rule late, early;
  EXPECT_EQ(late.to(kTo).priority(7).put_in_force(one_), 0);
  EXPECT_EQ(who({.to = kTo}), 1);
  EXPECT_EQ(early.ipv4(0x0a000002).priority(2).put_in_force(two_), 0);
  EXPECT_EQ(who({.to = kTo}), 2);
  EXPECT_EQ(who({.to = kTo, .network = 6}), 1);
}

TEST_F(RawPacketRules, EndWhenTheyAreDestroyed) {
  {
    Rule rule;
    EXPECT_EQ(rule.to(kTo).put_in_force(one_), 0);
    EXPECT_EQ(who({.to = kTo}), 1);
    EXPECT_EQ(ibv_destroy_qp(one_.qp), EBUSY) << "a rule steers to it";
  }
  EXPECT_EQ(who({.to = kTo}), 0);
}

TEST_F(RawPacketRules, SayingTheSameBothGetACopy) {
  Rule first, second;
  EXPECT_EQ(first.to(kTo).put_in_force(one_), 0);
  EXPECT_EQ(second.to(kTo).put_in_force(two_), 0);
  EXPECT_EQ(who({.to = kTo}), 3);
}

TEST_F(RawPacketRules, MayLetFramesPass) {
  Rule passing, later;
  EXPECT_EQ(passing.to(kTo).flags(IBV_FLOW_ATTR_FLAGS_DONT_TRAP).put_in_force(one_), 0);
  EXPECT_EQ(later.ipv4(0x0a000002).priority(1).put_in_force(two_), 0);
  EXPECT_EQ(who({.to = kTo}), 3);
  EXPECT_EQ(who({.to = kTo, .network = 0}), 1);
}

TEST_F(RawPacketRules, MayDropFrames) {
  Rule dropping, all(IBV_FLOW_ATTR_ALL_DEFAULT);
  ibv_flow_spec_action_drop drop{};
  drop.type = IBV_FLOW_SPEC_ACTION_DROP;
  EXPECT_EQ(dropping.to(kTo).add(drop).put_in_force(one_), 0);
  EXPECT_EQ(all.put_in_force(two_), 0);
  EXPECT_EQ(who({.to = kTo}), 0);
  EXPECT_EQ(who({.to = kSource}), 2);
}

TEST_F(RawPacketRules, SniffersSeeEverything) {
  Rule sniffer(IBV_FLOW_ATTR_SNIFFER), rule;
  EXPECT_EQ(sniffer.put_in_force(one_), 0);
  EXPECT_EQ(rule.to(kTo).put_in_force(two_), 0);
  EXPECT_EQ(who({.to = kTo}), 3);
  EXPECT_EQ(who({.to = kSource}), 1);
}

TEST_F(RawPacketRules, OfMulticastTakeWhatIsLeftOfIt) {
  Rule multicast(IBV_FLOW_ATTR_MC_DEFAULT), all(IBV_FLOW_ATTR_ALL_DEFAULT);
  EXPECT_EQ(all.put_in_force(one_), 0);
  EXPECT_EQ(multicast.put_in_force(two_), 0);
  EXPECT_EQ(who({.to = kGroup}), 2);
  EXPECT_EQ(who({.to = kTo}), 1);
}

// As under Linux: groups of GIDs are of datagrams.
TEST_F(RawPacketRules, StandForMulticastAttachments) {
  ibv_gid group{};
  group.raw[0] = 0xff;
  EXPECT_EQ(ibv_attach_mcast(one_.qp, &group, 0), EINVAL);
  EXPECT_EQ(ibv_detach_mcast(one_.qp, &group, 0), EINVAL);
  Rule first, second;
  EXPECT_EQ(first.to(kGroup).put_in_force(one_), 0);
  EXPECT_EQ(second.to(kGroup).put_in_force(two_), 0);
  EXPECT_EQ(who({.to = kGroup}), 3);
}

TEST_F(RawPacketRules, WithoutSenseAreRefused) {
  const auto refused = [this](Rule& rule) { return rule.put_in_force(one_); };
  Rule port, type(static_cast<ibv_flow_attr_type>(9)), twice, short_spec, types, ports,
      specs(IBV_FLOW_ATTR_SNIFFER);
  EXPECT_EQ(refused(port.to(kTo).port(2)), EINVAL);
  EXPECT_EQ(refused(type), EINVAL);
  EXPECT_EQ(refused(twice.to(kTo).to(kTo)), EINVAL);
  EXPECT_EQ(refused(specs.to(kTo)), EINVAL);
  ibv_flow_spec_eth ipv6{};
  ipv6.type = IBV_FLOW_SPEC_ETH;
  ipv6.val.ether_type = big16(0x86dd);
  ipv6.mask.ether_type = 0xffff;
  EXPECT_EQ(refused(types.add(ipv6).ipv4(1)), EINVAL);
  EXPECT_EQ(refused(ports.ports(IBV_FLOW_SPEC_TCP, 1).ipv4(1, 17)), EINVAL);
  Rule unknown, inner, flags, fragments, lifetime, hops;
  ibv_flow_spec_mpls mpls{};
  mpls.type = static_cast<ibv_flow_spec_type>(0x61);
  EXPECT_EQ(refused(unknown.add(mpls)), EINVAL);
  ibv_flow_spec_action_drop drop{};
  drop.type = static_cast<ibv_flow_spec_type>(IBV_FLOW_SPEC_ACTION_DROP | IBV_FLOW_SPEC_INNER);
  EXPECT_EQ(refused(inner.to(kTo).add(drop)), EINVAL);
  EXPECT_EQ(refused(flags.to(kTo).flags(1)), EINVAL);
  ibv_flow_spec_ipv4_ext with_flags{};
  with_flags.type = IBV_FLOW_SPEC_IPV4_EXT;
  with_flags.mask.flags = 1;
  EXPECT_EQ(refused(fragments.add(with_flags)), EOPNOTSUPP);
  with_flags.mask = {};
  with_flags.mask.ttl = 0xff;
  EXPECT_EQ(refused(lifetime.add(with_flags)), EOPNOTSUPP);
  ibv_flow_spec_ipv6 limited{};
  limited.type = IBV_FLOW_SPEC_IPV6;
  limited.mask.hop_limit = 0xff;
  EXPECT_EQ(refused(hops.add(limited)), EOPNOTSUPP);
}

TEST(RawPacketRulesOfOthers, SteerToRawPacketQueuePairsAlone) {
  Endpoint connected{Traits{}}, datagrams{Traits{.type = IBV_QPT_UD}};
  Rule first, second;
  EXPECT_EQ(first.to(kTo).put_in_force(connected), EINVAL);
  EXPECT_EQ(second.to(kTo).put_in_force(datagrams), EOPNOTSUPP);
}

TEST_F(RawPacketRules, ShortAndLongFramesCannotBeSent) {
  for (const uint32_t bytes : {13u, 8193u}) {
    EXPECT_EQ(sender_.post(sender_.request(IBV_WR_SEND, bytes)), 0);
    EXPECT_EQ(sender_.wait_status(), IBV_WC_LOC_LEN_ERR) << bytes;
    EXPECT_EQ(sender_.state(), IBV_QPS_SQE);
    EXPECT_EQ(sender_.move(IBV_QPS_RESET), 0);
    EXPECT_EQ(sender_.connect({}), 0);
  }
  EXPECT_EQ(sender_.post(sender_.request(IBV_WR_SEND_WITH_IMM, 64)), EINVAL) << "frames carry no immediate";
}

TEST_F(RawPacketRules, QueuePairsTakeFramesFromRtrOn) {
  Endpoint late(kFrames);
  Rule rule;
  EXPECT_EQ(late.to_init(), 0);
  EXPECT_EQ(late.receive(kPlace, 4096), 0);
  EXPECT_EQ(rule.to(kTo).put_in_force(late), 0);
  send(sender_, frame_of({.to = kTo}));
  EXPECT_TRUE(late.quiet());
  EXPECT_EQ(late.to_rtr({}), 0);
  send(sender_, frame_of({.to = kTo}));
  EXPECT_EQ(late.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(late.move(IBV_QPS_SQD), EINVAL) << "not from RTR";
}

TEST(RawPacketLoopback, MayBeBlocked) {
  Endpoint other(kFrames);
  EXPECT_EQ(other.connect({}), 0);
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = other.cq;
  wanted.qp_type = IBV_QPT_RAW_PACKET;
  wanted.cap = {4, 4, 1, 1, 0};
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  wanted.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  wanted.pd = other.pd;
  ibv_qp* qp = ibv_create_qp_ex(other.context, &wanted);
  ASSERT_NE(qp, nullptr);
  std::swap(other.qp, qp);
  EXPECT_EQ(other.connect({}), 0);
  {
    Rule rule, unicast;
    EXPECT_EQ(rule.to(kGroup).put_in_force(other), 0);
    EXPECT_EQ(unicast.to(kTo).put_in_force(other), 0);
    EXPECT_EQ(other.receive(kPlace, 4096), 0);
    send(other, frame_of({.to = kGroup}));
    EXPECT_TRUE(other.quiet());
  }
  std::swap(other.qp, qp);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  wanted.create_flags = IBV_QP_CREATE_SOURCE_QPN;
  EXPECT_EQ(ibv_create_qp_ex(other.context, &wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(RawPacketDevices, SayWhatTheyHave) {
  Endpoint self(kFrames);
  ibv_device_attr_ex attributes{};
  EXPECT_EQ(ibv_query_device_ex(self.context, nullptr, &attributes), 0);
  EXPECT_EQ(attributes.raw_packet_caps,
            static_cast<uint32_t>(IBV_RAW_PACKET_CAP_IP_CSUM | IBV_RAW_PACKET_CAP_CVLAN_STRIPPING |
                                  IBV_RAW_PACKET_CAP_SCATTER_FCS | IBV_RAW_PACKET_CAP_DELAY_DROP));
  EXPECT_NE(attributes.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING, 0u);
  EXPECT_NE(attributes.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM, 0u);
}

TEST(RawPacketDevices, OnInfinibandHaveNone) {
  with_devices("mlx5_0:mlx5:infiniband", [] {
    Endpoint self;
    ibv_device_attr_ex attributes{};
    EXPECT_EQ(ibv_query_device_ex(self.context, nullptr, &attributes), 0);
    EXPECT_EQ(attributes.raw_packet_caps, 0u);
    ibv_qp_init_attr wanted{nullptr, self.cq, self.cq, nullptr, {1, 1, 1, 1, 0}, IBV_QPT_RAW_PACKET, 0};
    EXPECT_EQ(ibv_create_qp(self.pd, &wanted), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  });
}

}  // namespace
}  // namespace verbatim::conformance
