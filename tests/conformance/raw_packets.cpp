// SPDX-License-Identifier: MIT
// Raw packet queue pairs: frames from one player to the other, by the rules that the other has made.
#include "tests/conformance/frames.h"

namespace verbatim::conformance {
namespace {

constexpr size_t kPlace = 8192;  ///< of received frames; each has so many bytes
constexpr size_t kRoom = 4096;

class RawPackets : public Played {};
VERBATIM_PLAY_BOTH_WAYS(RawPackets);

void post_receives(Endpoint& self, int count, size_t bytes = kRoom) {
  for (int i = 0; i < count; i++)
    EXPECT_EQ(self.receive(kPlace + static_cast<size_t>(i) * kRoom, bytes, static_cast<uint64_t>(i)), 0);
}

/// The next frame is this one.
ibv_wc expect_frame(Endpoint& self, uint64_t place, const std::vector<uint8_t>& frame) {
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.wr_id, place);
  EXPECT_EQ(wc.byte_len, frame.size());
  EXPECT_EQ(wc.wc_flags & (IBV_WC_GRH | IBV_WC_WITH_IMM), 0u);
  EXPECT_EQ(wc.qp_num, self.qp->qp_num);
  EXPECT_TRUE(lies_at(self, kPlace + place * kRoom, frame));
  return wc;
}

/// The passive player makes rules, the active one sends `sent`, of which `wanted` arrive.
struct Case {
  std::function<void(Rule&)> rule;
  std::vector<FrameTraits> sent;
  std::vector<size_t> wanted;
};

void run(Players players, const Traits& traits, const Case& what) {
  conformance::play(
      players, traits,
      [&](Endpoint& self) {
        self.barrier();
        for (const FrameTraits& each : what.sent) send(self, frame_of(each));
        self.barrier();
      },
      [&](Endpoint& self) {
        Rule rule;
        what.rule(rule);
        EXPECT_EQ(rule.put_in_force(self), 0);
        post_receives(self, 8);
        self.barrier();
        for (uint64_t i = 0; i < what.wanted.size(); i++)
          expect_frame(self, i, frame_of(what.sent[what.wanted[i]]));
        self.barrier();
        EXPECT_TRUE(self.quiet());
      });
}

constexpr Mac kTo{2, 7, 7, 7, 7, 7}, kOther{2, 7, 7, 7, 7, 8};

TEST_P(RawPackets, GoByAddress) {
  run(GetParam(), kFrames,
      {[](Rule& rule) { rule.to(kTo); },
       {{.to = kOther}, {.to = kTo}, {.to = kOther}, {.to = kTo, .network = 0, .payload = 0, .seed = 9}},
       {1, 3}});
}

TEST_P(RawPackets, GoByVlan) {
  run(GetParam(), kFrames,
      {[](Rule& rule) { rule.vlan(0x123); },
       {{.to = kTo}, {.to = kTo, .vlan = 0x124}, {.to = kTo, .vlan = 0x6123}, {.to = kTo, .vlan = 0x123}},
       {2, 3}});
}

TEST_P(RawPackets, GoByIpAddressAndProtocol) {
  run(GetParam(), kFrames,
      {[](Rule& rule) { rule.ipv4(0x0a141e28, 17); },
       {{.to = kTo},
        {.to = kTo, .transport = 6, .ip = 0x0a141e28},
        {.to = kTo, .network = 6, .ip = 0x0a141e28},
        {.to = kTo, .ip = 0x0a141e28}},
       {3}});
}

TEST_P(RawPackets, GoByPort) {
  run(GetParam(), kFrames,
      {[](Rule& rule) { rule.to(kTo).ipv4(0x0a000002).ports(IBV_FLOW_SPEC_UDP, 4242); },
       {{.to = kTo},
        {.to = kTo, .transport = 6, .port = 4242},
        {.to = kOther, .port = 4242},
        {.to = kTo, .vlan = 5, .port = 4242},
        {.to = kTo, .port = 4242}},
       {3, 4}});
}

TEST_P(RawPackets, GoByIpv6AndTcp) {
  run(GetParam(), kFrames,
      {[](Rule& rule) {
         ibv_flow_spec_ipv6 spec{};
         spec.type = IBV_FLOW_SPEC_IPV6;
         spec.val.dst_ip[15] = 9;
         spec.mask.dst_ip[15] = 0xff;
         spec.val.next_hdr = 6;
         spec.mask.next_hdr = 0xff;
         rule.add(spec).ports(IBV_FLOW_SPEC_TCP, 80);
       },
       {{.to = kTo, .network = 6, .ip = 9, .port = 80},
        {.to = kTo, .network = 6, .transport = 6, .ip = 9, .port = 81},
        {.to = kTo, .transport = 6, .ip = 9, .port = 80},
        {.to = kTo, .network = 6, .transport = 6, .ip = 9, .port = 80}},
       {3}});
}

TEST_P(RawPackets, ComeIntoASharedQueue) {
  Traits shared = kFrames;
  shared.srq = true;
  run(GetParam(), shared,
      {[](Rule& rule) { rule.to(kTo); }, {{.to = kTo}, {.to = kOther}, {.to = kTo, .seed = 77}}, {0, 2}});
}

TEST_P(RawPackets, AllThatIsLeftGoesToADefaultRule) {
  play(
      kFrames,
      [](Endpoint& self) {
        self.barrier();
        for (const Mac& to : {kTo, kOther, kGroup}) send(self, frame_of({.to = to}));
        self.barrier();
      },
      [](Endpoint& self) {
        // Another queue pair of the same process takes some.
        Endpoint second(kFrames);
        EXPECT_EQ(second.connect({}), 0);
        Rule all(IBV_FLOW_ATTR_ALL_DEFAULT), some;
        EXPECT_EQ(all.put_in_force(self), 0);
        EXPECT_EQ(some.to(kOther).put_in_force(second), 0);
        post_receives(self, 4);
        post_receives(second, 4);
        self.barrier();
        expect_frame(self, 0, frame_of({.to = kTo}));
        expect_frame(self, 1, frame_of({.to = kGroup}));
        expect_frame(second, 0, frame_of({.to = kOther}));
        self.barrier();
        EXPECT_TRUE(self.quiet());
        EXPECT_TRUE(second.quiet());
      });
}

TEST_P(RawPackets, GoToEachThatAsksForAGroup) {
  play(
      kFrames,
      [](Endpoint& self) {
        Rule rule;
        EXPECT_EQ(rule.to(kGroup).put_in_force(self), 0);
        post_receives(self, 1);
        self.barrier();
        // It comes back to the sender, too: before or after the completion of the send.
        put(self, 0, frame_of({.to = kGroup}));
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, frame_of({.to = kGroup}).size())), 0);
        const ibv_wc one = self.wait(), two = self.wait();
        EXPECT_EQ(one.status, IBV_WC_SUCCESS);
        EXPECT_EQ(two.status, IBV_WC_SUCCESS);
        EXPECT_NE(one.opcode == IBV_WC_RECV, two.opcode == IBV_WC_RECV);
        self.barrier();
      },
      [](Endpoint& self) {
        Rule rule;
        EXPECT_EQ(rule.to(kGroup).put_in_force(self), 0);
        post_receives(self, 1);
        self.barrier();
        expect_frame(self, 0, frame_of({.to = kGroup}));
        self.barrier();
      });
}

// No acknowledgement, no retry: what finds no receive request is gone.
TEST_P(RawPackets, WithoutAReceiveRequestAreLost) {
  play(
      kFrames,
      [](Endpoint& self) {
        self.barrier();
        send(self, frame_of({.to = kTo, .seed = 1}));
        self.barrier();
        self.barrier();
        send(self, frame_of({.to = kTo, .seed = 2}));
        self.barrier();
      },
      [](Endpoint& self) {
        Rule rule;
        EXPECT_EQ(rule.to(kTo).put_in_force(self), 0);
        self.barrier();
        self.barrier();
        EXPECT_TRUE(self.quiet());
        post_receives(self, 2);
        self.barrier();
        expect_frame(self, 0, frame_of({.to = kTo, .seed = 2}));
        self.barrier();
      });
}

TEST_P(RawPackets, TooLongForTheReceiveRequestFailIt) {
  play(
      kFrames,
      [](Endpoint& self) {
        self.barrier();
        send(self, frame_of({.to = kTo}));
        self.barrier();
      },
      [](Endpoint& self) {
        Rule rule;
        EXPECT_EQ(rule.to(kTo).put_in_force(self), 0);
        post_receives(self, 1, 40);
        self.barrier();
        EXPECT_EQ(self.wait_status(), IBV_WC_LOC_LEN_ERR);
        EXPECT_EQ(self.state(), IBV_QPS_ERR);
        self.barrier();
      });
}

TEST_P(RawPackets, OfTheLargestSizeArrive) {
  const FrameTraits jumbo{.to = kTo, .network = 0, .payload = 8192 - 14};
  play(
      kFrames,
      [&](Endpoint& self) {
        self.barrier();
        for (int i = 0; i < 50; i++) send(self, frame_of(jumbo));
        self.barrier();
      },
      [&](Endpoint& self) {
        Rule rule;
        EXPECT_EQ(rule.to(kTo).put_in_force(self), 0);
        for (uint64_t i = 0; i < 50; i++) EXPECT_EQ(self.receive(kPlace, 8192, i), 0);
        self.barrier();
        for (uint64_t i = 0; i < 50; i++) {
          const ibv_wc wc = self.wait();
          EXPECT_EQ(wc.wr_id, i);
          EXPECT_EQ(wc.byte_len, 8192u);
        }
        EXPECT_TRUE(lies_at(self, kPlace, frame_of(jumbo)));
        self.barrier();
      });
}

TEST_P(RawPackets, HaveTheirChecksumsComputed) {
  play(
      kFrames,
      [](Endpoint& self) {
        self.barrier();
        send(self, frame_of({.to = kTo, .transport = 6}), IBV_SEND_IP_CSUM);
        send(self, frame_of({.to = kTo, .transport = 6}));
        self.barrier();
      },
      [](Endpoint& self) {
        Rule rule;
        EXPECT_EQ(rule.to(kTo).put_in_force(self), 0);
        post_receives(self, 2);
        self.barrier();
        const ibv_wc good = self.wait(), bad = self.wait();
        EXPECT_EQ(good.status, IBV_WC_SUCCESS);
        EXPECT_NE(good.wc_flags & IBV_WC_IP_CSUM_OK, 0u);
        EXPECT_EQ(bad.wc_flags & IBV_WC_IP_CSUM_OK, 0u);
        // Nothing else of the frame has changed.
        std::vector<uint8_t> same = frame_of({.to = kTo, .transport = 6});
        std::vector<uint8_t> got(self.buffer.data() + kPlace, self.buffer.data() + kPlace + same.size());
        EXPECT_NE(got[24] << 8 | got[25], 0);
        got[24] = got[25] = got[50] = got[51] = 0;
        EXPECT_EQ(got, same);
        self.barrier();
      });
}

TEST_P(RawPackets, MayBeSentInlineAndByBuilders) {
  Traits building = kFrames;
  building.operations = IBV_QP_EX_WITH_SEND;
  play(
      building,
      [](Endpoint& self) {
        self.barrier();
        const auto first = frame_of({.to = kTo, .seed = 1}), second = frame_of({.to = kTo, .seed = 2});
        send(self, first, IBV_SEND_INLINE);
        put(self, 0, second);
        ibv_qp_ex* builder = self.builder();
        ASSERT_NE(builder, nullptr);
        ibv_wr_start(builder);
        builder->wr_id = 5;
        builder->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(builder);
        const ibv_sge pieces[2] = {self.piece(0, 20), self.piece(20, second.size() - 20)};
        ibv_wr_set_sge_list(builder, 2, pieces);
        EXPECT_EQ(ibv_wr_complete(builder), 0);
        EXPECT_EQ(self.wait().wr_id, 5u);
        self.barrier();
      },
      [](Endpoint& self) {
        Rule rule;
        EXPECT_EQ(rule.to(kTo).put_in_force(self), 0);
        post_receives(self, 2);
        self.barrier();
        expect_frame(self, 0, frame_of({.to = kTo, .seed = 1}));
        expect_frame(self, 1, frame_of({.to = kTo, .seed = 2}));
        self.barrier();
      });
}

TEST_P(RawPackets, TellTheTagOfTheirRule) {
  Traits extended = kFrames;
  extended.cq_fields =
      IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  play(
      extended,
      [](Endpoint& self) {
        self.barrier();
        send(self, frame_of({.to = kTo}));
        self.barrier();
      },
      [](Endpoint& self) {
        Rule rule;
        EXPECT_EQ(rule.to(kTo).tag(0xabcdef).put_in_force(self), 0);
        post_receives(self, 1);
        self.barrier();
        self.barrier();  // it is on its way
        ibv_poll_cq_attr none{};
        int found = ENOENT;
        for (int tries = 0; tries < 1'000'000 && found != 0; tries++)
          found = ibv_start_poll(self.extended_cq(), &none);
        ASSERT_EQ(found, 0);
        EXPECT_EQ(ibv_wc_read_flow_tag(self.extended_cq()), 0xabcdefu);
        EXPECT_EQ(ibv_wc_read_byte_len(self.extended_cq()), frame_of({.to = kTo}).size());
        EXPECT_NE(ibv_wc_read_completion_ts(self.extended_cq()), 0u);
        ibv_end_poll(self.extended_cq());
      });
}

}  // namespace
}  // namespace verbatim::conformance
