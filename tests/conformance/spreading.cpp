// SPDX-License-Identifier: MIT
// Frames spread over work queues by a queue pair with a table.
#include "tests/conformance/spread_table.h"

namespace verbatim::conformance {
namespace {

constexpr Mac kTo{2, 4, 4, 4, 4, 4};

class Spread : public testing::TestWithParam<Players> {};
VERBATIM_PLAY_BOTH_WAYS(Spread);

/// A frame of TCP over IPv4 from the packets that the hash is verified by.
std::vector<uint8_t> known(size_t which) {
  struct Ends {
    std::array<uint8_t, 12> bytes;  // source, destination, ports
  };
  constexpr Ends kEnds[] = {
      {{66, 9, 149, 187, 161, 142, 100, 80, 2794 >> 8, 2794 & 255, 1766 >> 8, 1766 & 255}},
      {{199, 92, 111, 2, 65, 69, 140, 83, 14230 >> 8, 14230 & 255, 4739 >> 8, 4739 & 255}},
      {{24, 19, 198, 95, 12, 22, 207, 184, 12898 >> 8, 12898 & 255, 38024 >> 8, 38024 & 255}},
      {{38, 27, 205, 30, 209, 142, 163, 6, 48228 >> 8, 48228 & 255, 2217 >> 8, 2217 & 255}}};
  std::vector<uint8_t> frame = frame_of({.to = kTo, .transport = 6, .seed = static_cast<uint8_t>(which)});
  std::memcpy(&frame[14 + 12], kEnds[which].bytes.data(), 12);
  return frame;
}
// Of addresses and ports: 0x51ccc178, 0xc626b0ea, 0x5c2b394a, 0xafc7327f.
constexpr size_t kQueueOf[] = {0, 2, 2, 3};

TEST_P(Spread, GoesByTheToeplitzHash) {
  conformance::play(
      GetParam(), kFrames,
      [](Endpoint& self) {
        self.barrier();
        for (size_t i = 0; i < 4; i++) send(self, known(i));
        send(self, frame_of({.to = kTo}));  // of UDP: no ports of TCP
        self.barrier();
      },
      [](Endpoint& self) {
        SpreadTable table(self);
        ASSERT_NE(table.spread(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_PORT_TCP |
                               IBV_RX_HASH_DST_PORT_TCP),
                  nullptr);
        Rule rule;
        EXPECT_EQ(rule.to(kTo).tag(5).put_in_force(table.qp), 0);
        self.barrier();
        uint64_t taken[kQueues] = {};
        for (size_t i = 0; i < 4; i++) {
          const size_t queue = kQueueOf[i];
          const ibv_wc wc = table.wait(queue);
          EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
          EXPECT_EQ(wc.opcode, IBV_WC_RECV);
          EXPECT_EQ(wc.wr_id, taken[queue]);
          EXPECT_EQ(wc.byte_len, known(i).size());
          EXPECT_EQ(wc.qp_num, table.queues[queue]->wq_num);
          EXPECT_TRUE(lies_at(self, SpreadTable::place(queue, taken[queue]++), known(i))) << i;
        }
        EXPECT_EQ(table.wait(0).byte_len, frame_of({.to = kTo}).size())
            << "what has no hash goes to the first";
        self.barrier();
        EXPECT_TRUE(table.quiet());
      });
}

/// Within one process.
class SpreadQueues : public Spread {
 protected:
  SpreadQueues() { EXPECT_EQ(sender.connect({}), 0); }
  Endpoint sender{kFrames}, receiver{kFrames};
};
INSTANTIATE_TEST_SUITE_P(One, SpreadQueues, testing::Values(Players::kOneProcess), players_name);

TEST_P(SpreadQueues, WithoutFieldsAllGoesToTheFirst) {
  SpreadTable table(receiver);
  ASSERT_NE(table.spread(0), nullptr);
  Rule rule;
  ASSERT_EQ(rule.to(kTo).put_in_force(table.qp), 0);
  EXPECT_EQ(ibv_destroy_qp(table.qp), EBUSY) << "a rule steers to it";
  for (size_t i = 0; i < 4; i++) send(sender, known(i));
  for (uint64_t i = 0; i < 4; i++) EXPECT_EQ(table.wait(0).wr_id, i);
  EXPECT_TRUE(table.quiet());
}

TEST_P(SpreadQueues, StripTagsAndKeepTheCheckSequence) {
  SpreadTable table(receiver, IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_SCATTER_FCS);
  ASSERT_NE(table.spread(0), nullptr);
  Rule rule;
  ASSERT_EQ(rule.to(kTo).put_in_force(table.qp), 0);
  const std::vector<uint8_t> untagged = frame_of({.to = kTo});
  send(sender, frame_of({.to = kTo, .vlan = 7}));
  EXPECT_EQ(table.wait(0).byte_len, untagged.size() + 4);
  EXPECT_TRUE(lies_at(receiver, SpreadTable::place(0, 0), untagged));
  ibv_wq_attr attr{};
  attr.attr_mask = IBV_WQ_ATTR_FLAGS;
  attr.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
  ASSERT_EQ(ibv_modify_wq(table.queues[0], &attr), 0);
  send(sender, frame_of({.to = kTo, .vlan = 7}));
  EXPECT_EQ(table.wait(0).byte_len, untagged.size() + 8) << "the tag stays now";
}

TEST_P(SpreadQueues, TakeNothingUntilTheyAreReady) {
  SpreadTable table(receiver);
  ASSERT_NE(table.spread(0), nullptr);
  Rule rule;
  ASSERT_EQ(rule.to(kTo).put_in_force(table.qp), 0);
  ASSERT_EQ(table.move(0, IBV_WQS_ERR), 0);
  for (uint64_t i = 0; i < kReceives; i++) EXPECT_EQ(table.wait(0).status, IBV_WC_WR_FLUSH_ERR);
  send(sender, known(0));
  ASSERT_EQ(table.move(0, IBV_WQS_RESET), 0);
  send(sender, known(0));
  ASSERT_EQ(table.move(0, IBV_WQS_RDY), 0);
  send(sender, known(0));
  EXPECT_EQ(table.post(0, 5, kRoom), 0);
  EXPECT_TRUE(table.quiet()) << "what came earlier is lost";
  send(sender, known(1));
  EXPECT_EQ(table.wait(0).wr_id, 5u);
  EXPECT_TRUE(lies_at(receiver, SpreadTable::place(0, 5), known(1)));
}

TEST_P(SpreadQueues, FailByAFrameThatDoesNotFit) {
  SpreadTable table(receiver);
  ASSERT_NE(table.spread(0), nullptr);
  Rule rule;
  ASSERT_EQ(rule.to(kTo).put_in_force(table.qp), 0);
  send(sender, frame_of({.to = kTo, .payload = 2000}));
  EXPECT_EQ(table.wait(0).status, IBV_WC_LOC_LEN_ERR);
  for (uint64_t i = 1; i < kReceives; i++) {
    const ibv_wc wc = table.wait(0);
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.wr_id, i);
  }
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(receiver.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_WQ_FATAL);
  EXPECT_EQ(event.element.wq, table.queues[0]);
  ibv_ack_async_event(&event);
  EXPECT_EQ(table.move(0, IBV_WQS_RDY), EINVAL) << "it is in ERR";
  EXPECT_EQ(table.move(0, IBV_WQS_RESET), EINVAL) << "which its owner has not heard of";
  ibv_wq_attr attr{};
  attr.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
  attr.curr_wq_state = IBV_WQS_ERR;
  attr.wq_state = IBV_WQS_RESET;
  EXPECT_EQ(ibv_modify_wq(table.queues[0], &attr), 0);
}

TEST_P(SpreadQueues, AreToldByTheDevice) {
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(sender.context, nullptr, &device), 0);
  EXPECT_TRUE(ibv_is_qpt_supported(device.rss_caps.supported_qpts, IBV_QPT_RAW_PACKET));
  EXPECT_EQ(device.rss_caps.rx_hash_function, IBV_RX_HASH_FUNC_TOEPLITZ);
  EXPECT_NE(device.rss_caps.rx_hash_fields_mask & IBV_RX_HASH_DST_PORT_UDP, 0u);
  EXPECT_EQ(device.tso_caps.max_tso, 1u << 18);
  EXPECT_TRUE(ibv_is_qpt_supported(device.tso_caps.supported_qpts, IBV_QPT_RAW_PACKET));
  EXPECT_NE(device.device_cap_flags_ex & IBV_DEVICE_RAW_SCATTER_FCS, 0u);
  EXPECT_NE(device.device_cap_flags_ex & IBV_DEVICE_PCI_WRITE_END_PADDING, 0u);
}

}  // namespace
}  // namespace verbatim::conformance
