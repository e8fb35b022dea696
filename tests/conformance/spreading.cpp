// SPDX-License-Identifier: MIT
// Frames spread over work queues by a queue pair with a table.
#include <infiniband/mlx5dv.h>

#include "tests/conformance/frames.h"

namespace verbatim::conformance {
namespace {

constexpr Mac kTo{2, 4, 4, 4, 4, 4};
constexpr size_t kRoom = 1024;
constexpr size_t kQueues = 4, kReceives = 16;

/// The key by which receive side scaling is verified everywhere.
constexpr std::array<uint8_t, 40> kKey{0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                       0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                       0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                       0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

/// Each queue has a completion queue and a part of the endpoint's buffer of its own.
class Spread : public testing::TestWithParam<Players> {
 protected:
  static size_t place(size_t queue, uint64_t receive) { return (queue * kReceives + receive) * kRoom; }

  /// What one process does with the frames.
  struct Table {
    explicit Table(Endpoint& endpoint, uint32_t flags = 0) : self(endpoint) {
      for (size_t i = 0; i < kQueues; i++) {
        cqs[i] = ibv_create_cq(self.context, 64, nullptr, nullptr, 0);
        ibv_wq_init_attr init{};
        init.wq_type = IBV_WQT_RQ;
        init.max_wr = kReceives;
        init.max_sge = 1;
        init.pd = self.pd;
        init.cq = cqs[i];
        init.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
        init.create_flags = flags;
        queues[i] = ibv_create_wq(self.context, &init);
        EXPECT_NE(queues[i], nullptr);
        EXPECT_EQ(move(i, IBV_WQS_RDY), 0);
        for (uint64_t r = 0; r < kReceives; r++) EXPECT_EQ(post(i, r, kRoom), 0);
      }
      ibv_rwq_ind_table_init_attr init{2, queues.data(), 0};
      table = ibv_create_rwq_ind_table(self.context, &init);
      EXPECT_NE(table, nullptr);
    }
    ~Table() {
      if (qp != nullptr) {
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
      }
      EXPECT_EQ(ibv_destroy_rwq_ind_table(table), 0);
      for (ibv_wq* queue : queues) EXPECT_EQ(ibv_destroy_wq(queue), 0);
      for (ibv_cq* cq : cqs) EXPECT_EQ(ibv_destroy_cq(cq), 0);
    }
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    ibv_qp* spread(uint64_t fields) {
      key = kKey;
      ibv_qp_init_attr_ex init{};
      init.qp_type = IBV_QPT_RAW_PACKET;
      init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
      init.pd = self.pd;
      init.rwq_ind_tbl = table;
      init.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, static_cast<uint8_t>(key.size()), key.data(), fields};
      return qp = ibv_create_qp_ex(self.context, &init);
    }
    int move(size_t queue, ibv_wq_state to) {
      ibv_wq_attr attr{};
      attr.attr_mask = IBV_WQ_ATTR_STATE;
      attr.wq_state = to;
      return ibv_modify_wq(queues[queue], &attr);
    }
    int post(size_t queue, uint64_t id, size_t bytes) {
      ibv_sge piece = self.piece(place(queue, id), bytes);
      ibv_recv_wr wr{id, nullptr, &piece, 1}, *bad = nullptr;
      return ibv_post_wq_recv(queues[queue], &wr, &bad);
    }
    /// The next completion of a queue within five seconds.
    ibv_wc wait(size_t queue) {
      ibv_wc wc{};
      for (int64_t tries = 0; ibv_poll_cq(cqs[queue], 1, &wc) == 0; tries++)
        if (tries == 50'000'000) {
          ADD_FAILURE() << "no completion in queue " << queue;
          break;
        }
      return wc;
    }
    bool quiet() {
      ibv_wc wc{};
      for (ibv_cq* cq : cqs)
        if (ibv_poll_cq(cq, 1, &wc) != 0) return false;
      return true;
    }

    Endpoint& self;
    std::array<ibv_cq*, kQueues> cqs{};
    std::array<ibv_wq*, kQueues> queues{};
    std::array<uint8_t, 40> key{};
    ibv_rwq_ind_table* table = nullptr;
    ibv_qp* qp = nullptr;
  };
};
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
        Table table(self);
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
          EXPECT_TRUE(lies_at(self, place(queue, taken[queue]++), known(i))) << i;
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
  Table table(receiver);
  ASSERT_NE(table.spread(0), nullptr);
  Rule rule;
  ASSERT_EQ(rule.to(kTo).put_in_force(table.qp), 0);
  EXPECT_EQ(ibv_destroy_qp(table.qp), EBUSY) << "a rule steers to it";
  for (size_t i = 0; i < 4; i++) send(sender, known(i));
  for (uint64_t i = 0; i < 4; i++) EXPECT_EQ(table.wait(0).wr_id, i);
  EXPECT_TRUE(table.quiet());
}

TEST_P(SpreadQueues, StripTagsAndKeepTheCheckSequence) {
  Table table(receiver, IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_SCATTER_FCS);
  ASSERT_NE(table.spread(0), nullptr);
  Rule rule;
  ASSERT_EQ(rule.to(kTo).put_in_force(table.qp), 0);
  const std::vector<uint8_t> untagged = frame_of({.to = kTo});
  send(sender, frame_of({.to = kTo, .vlan = 7}));
  EXPECT_EQ(table.wait(0).byte_len, untagged.size() + 4);
  EXPECT_TRUE(lies_at(receiver, place(0, 0), untagged));
  ibv_wq_attr attr{};
  attr.attr_mask = IBV_WQ_ATTR_FLAGS;
  attr.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
  ASSERT_EQ(ibv_modify_wq(table.queues[0], &attr), 0);
  send(sender, frame_of({.to = kTo, .vlan = 7}));
  EXPECT_EQ(table.wait(0).byte_len, untagged.size() + 8) << "the tag stays now";
}

TEST_P(SpreadQueues, TakeNothingUntilTheyAreReady) {
  Table table(receiver);
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
  EXPECT_TRUE(lies_at(receiver, place(0, 5), known(1)));
}

TEST_P(SpreadQueues, FailByAFrameThatDoesNotFit) {
  Table table(receiver);
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
