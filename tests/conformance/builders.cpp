// SPDX-License-Identifier: MIT
// The ibv_wr_ calls: every operation of every transport, batches that fail and batches that are taken back.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

class BuiltRequests : public Played {};
VERBATIM_PLAY_BOTH_WAYS(BuiltRequests);

constexpr uint64_t kDatagramOperations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr uint64_t kUnreliableOperations = kDatagramOperations | IBV_QP_EX_WITH_RDMA_WRITE |
                                           IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
                                           IBV_QP_EX_WITH_LOCAL_INV;
constexpr uint64_t kReliableOperations = kUnreliableOperations | IBV_QP_EX_WITH_RDMA_READ |
                                         IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                         IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
constexpr size_t kGrh = 40;

/// Starts the next request of a batch with this id.
ibv_qp_ex* name_next(Endpoint& self, uint64_t id, unsigned int flags = IBV_SEND_SIGNALED) {
  ibv_qp_ex* qp = self.builder();
  qp->wr_id = id;
  qp->wr_flags = flags;
  return qp;
}
uint64_t at(const Endpoint& self, size_t offset) {
  return reinterpret_cast<uint64_t>(self.buffer.data() + offset);
}
void expect_sent(Endpoint& self, uint64_t id, ibv_wc_opcode opcode) {
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, id);
  EXPECT_EQ(wc.opcode, opcode);
}
void expect_received(Endpoint& self, ibv_wc_opcode opcode, uint32_t bytes, int immediate = -1) {
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, opcode);
  EXPECT_EQ(wc.byte_len, bytes);
  EXPECT_EQ((wc.wc_flags & IBV_WC_WITH_IMM) != 0, immediate >= 0);
  if (immediate >= 0) {
    EXPECT_EQ(wc.imm_data, htonl(static_cast<uint32_t>(immediate)));
  }
}

/// Writes and sends: what RC and UC have in common.
void build_unreliable(Endpoint& self) {
  fill(self, 0, 512, 3);
  const ibv_sge list[] = {self.piece(0, 100), self.piece(100, 28)};
  const ibv_data_buf pieces[] = {{&self.buffer[0], 30}, {&self.buffer[30], 0}, {&self.buffer[30], 34}};
  ibv_wr_start(self.builder());
  ibv_wr_rdma_write(name_next(self, 1), self.peer.rkey, self.peer.address + 8192);
  ibv_wr_set_sge(self.builder(), self.mr->lkey, at(self, 0), 512);
  ibv_wr_rdma_write_imm(name_next(self, 2), self.peer.rkey, self.peer.address + 10240, htonl(5));
  ibv_wr_set_sge_list(self.builder(), 2, list);
  ibv_wr_send(name_next(self, 3));
  ibv_wr_set_inline_data(self.builder(), &self.buffer[0], 96);
  ibv_wr_send_imm(name_next(self, 4), htonl(6));
  ibv_wr_set_inline_data_list(self.builder(), 3, pieces);
  ibv_wr_send(name_next(self, 5));  // no data at all
  EXPECT_EQ(ibv_wr_complete(self.builder()), 0);
  expect_sent(self, 1, IBV_WC_RDMA_WRITE);
  expect_sent(self, 2, IBV_WC_RDMA_WRITE);
  expect_sent(self, 3, IBV_WC_SEND);
  expect_sent(self, 4, IBV_WC_SEND);
  expect_sent(self, 5, IBV_WC_SEND);
}
void check_unreliable(Endpoint& self) {
  expect_received(self, IBV_WC_RECV_RDMA_WITH_IMM, 128, 5);
  expect_received(self, IBV_WC_RECV, 96);
  expect_received(self, IBV_WC_RECV, 64, 6);
  expect_received(self, IBV_WC_RECV, 0);
  EXPECT_TRUE(holds(self, 8192, 512, 3));
  EXPECT_TRUE(holds(self, 10240, 128, 3));
  EXPECT_TRUE(holds(self, 1024, 96, 3));
  EXPECT_TRUE(holds(self, 1280, 64, 3));
}
void post_receives(Endpoint& self) {
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(self.receive(768 + 256 * i, 256), 0);
}

TEST_P(BuiltRequests, OfUnreliableConnections) {
  play(
      {.type = IBV_QPT_UC, .operations = kUnreliableOperations},
      [](Endpoint& self) {
        self.barrier();
        build_unreliable(self);
      },
      [](Endpoint& self) {
        post_receives(self);
        self.barrier();
        check_unreliable(self);
      });
}

TEST_P(BuiltRequests, OfReliableConnections) {
  play(
      {.operations = kReliableOperations},
      [](Endpoint& self) {
        self.barrier();
        build_unreliable(self);
        ibv_wr_start(self.builder());
        ibv_wr_rdma_read(name_next(self, 11), self.peer.rkey, self.peer.address + 20000);
        ibv_wr_set_sge(self.builder(), self.mr->lkey, at(self, 4096), 300);
        ibv_wr_atomic_cmp_swp(name_next(self, 12), self.peer.rkey, self.peer.address + 16384, 7, 70);
        ibv_wr_set_sge(self.builder(), self.mr->lkey, at(self, 5000), 8);
        ibv_wr_atomic_fetch_add(name_next(self, 13), self.peer.rkey, self.peer.address + 16384, 3);
        ibv_wr_set_sge(self.builder(), self.mr->lkey, at(self, 5008), 8);
        EXPECT_EQ(ibv_wr_complete(self.builder()), 0);
        expect_sent(self, 11, IBV_WC_RDMA_READ);
        expect_sent(self, 12, IBV_WC_COMP_SWAP);
        expect_sent(self, 13, IBV_WC_FETCH_ADD);
        EXPECT_TRUE(holds(self, 4096, 300, 44));
        EXPECT_EQ(word(self, 5000), 7u);
        EXPECT_EQ(word(self, 5008), 70u);
        self.barrier();
      },
      [](Endpoint& self) {
        fill(self, 20000, 300, 44);
        word(self, 16384) = 7;
        post_receives(self);
        self.barrier();
        check_unreliable(self);
        self.barrier();
        EXPECT_EQ(word(self, 16384), 73u);
      });
}

TEST_P(BuiltRequests, OfDatagrams) {
  play(
      {.type = IBV_QPT_UD, .operations = kDatagramOperations},
      [](Endpoint& self) {
        fill(self, 0, 512, 3);
        self.barrier();
        const auto address = [&self] { ibv_wr_set_ud_addr(self.builder(), self.ah, self.peer.qpn, kQkey); };
        ibv_wr_start(self.builder());
        ibv_wr_send(name_next(self, 1));
        address();  // before the data
        ibv_wr_set_sge(self.builder(), self.mr->lkey, at(self, 0), 200);
        ibv_wr_send_imm(name_next(self, 2), htonl(9));
        ibv_wr_set_inline_data(self.builder(), &self.buffer[0], 100);
        address();  // after it
        ibv_wr_send(name_next(self, 3));
        address();
        EXPECT_EQ(ibv_wr_complete(self.builder()), 0);
        for (const uint64_t id : {1, 2, 3}) expect_sent(self, id, IBV_WC_SEND);
      },
      [](Endpoint& self) {
        post_receives(self);
        self.barrier();
        expect_received(self, IBV_WC_RECV, kGrh + 200);
        expect_received(self, IBV_WC_RECV, kGrh + 100, 9);
        expect_received(self, IBV_WC_RECV, kGrh);
        EXPECT_TRUE(holds(self, 768 + kGrh, 200, 3));
        EXPECT_TRUE(holds(self, 1024 + kGrh, 100, 3));
      });
}

TEST_P(BuiltRequests, CarryTheirFlags) {
  play(
      {.channel = true, .operations = kReliableOperations},
      [](Endpoint& self) {
        self.barrier();
        ibv_wr_start(self.builder());
        ibv_wr_send(name_next(self, 1, 0));
        ibv_wr_send(name_next(self, 2, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE));
        EXPECT_EQ(ibv_wr_complete(self.builder()), 0);
        expect_sent(self, 2, IBV_WC_SEND);  // the first one was not signalled
        EXPECT_TRUE(self.quiet());
      },
      [](Endpoint& self) {
        post_receives(self);
        EXPECT_EQ(ibv_req_notify_cq(self.cq, 1), 0);
        self.barrier();
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        EXPECT_EQ(ibv_get_cq_event(self.channel, &cq, &context), 0);
        ibv_ack_cq_events(cq, 1);
        expect_received(self, IBV_WC_RECV, 0);
        expect_received(self, IBV_WC_RECV, 0);
      });
}

/// Nothing of a batch has reached the queue: the next request is the first to complete.
void expect_nothing_posted(Pair& pair) {
  EXPECT_TRUE(pair.left.quiet());
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 8);
  wr.wr_id = 77;
  EXPECT_EQ(pair.left.post(wr), 0);
  expect_sent(pair.left, 77, IBV_WC_RDMA_WRITE);
}

TEST(FailedBatches, OfTooManyElements) {
  Pair pair({.operations = kReliableOperations});
  Endpoint& self = pair.left;
  ibv_sge list[40];
  for (ibv_sge& sge : list) sge = self.piece(0, 8);
  ibv_wr_start(self.builder());
  ibv_wr_rdma_write(name_next(self, 1), self.peer.rkey, self.peer.address);
  ibv_wr_set_sge(self.builder(), self.mr->lkey, at(self, 0), 8);
  ibv_wr_rdma_write(name_next(self, 2), self.peer.rkey, self.peer.address);
  ibv_wr_set_sge_list(self.builder(), 40, list);
  ibv_wr_rdma_write(name_next(self, 3), self.peer.rkey, self.peer.address);
  ibv_wr_set_sge(self.builder(), self.mr->lkey, at(self, 0), 8);
  EXPECT_EQ(ibv_wr_complete(self.builder()), ENOMEM);
  expect_nothing_posted(pair);
}

TEST(FailedBatches, OfTooMuchInlineData) {
  Pair pair({.operations = kReliableOperations});
  Endpoint& self = pair.left;
  const ibv_data_buf pieces[] = {{self.buffer.data(), 8}, {self.buffer.data(), 2000}};
  ibv_wr_start(self.builder());
  ibv_wr_send(name_next(self, 1));
  ibv_wr_set_inline_data(self.builder(), self.buffer.data(), 2000);
  EXPECT_EQ(ibv_wr_complete(self.builder()), ENOMEM);
  ibv_wr_start(self.builder());
  ibv_wr_send(name_next(self, 1));
  ibv_wr_set_inline_data_list(self.builder(), 2, pieces);
  ibv_wr_send(name_next(self, 2));
  EXPECT_EQ(ibv_wr_complete(self.builder()), ENOMEM);
  expect_nothing_posted(pair);
}

TEST(FailedBatches, LongerThanTheQueue) {
  Pair pair({.operations = kReliableOperations});
  Endpoint& self = pair.left;
  ibv_wr_start(self.builder());
  for (uint64_t i = 0; i < 1000; ++i) {
    ibv_wr_rdma_write(name_next(self, i), self.peer.rkey, self.peer.address);
    ibv_wr_set_sge(self.builder(), self.mr->lkey, at(self, 0), 8);
  }
  EXPECT_EQ(ibv_wr_complete(self.builder()), ENOMEM);
  expect_nothing_posted(pair);
}

TEST(FailedBatches, AreForgottenByTheNext) {
  Pair pair({.operations = kReliableOperations});
  Endpoint& self = pair.left;
  for (uint64_t round = 0; round < 200; ++round) {
    ibv_wr_start(self.builder());
    ibv_wr_send(name_next(self, 1000));
    ibv_wr_set_inline_data(self.builder(), self.buffer.data(), 2000);
    ASSERT_EQ(ibv_wr_complete(self.builder()), ENOMEM);
    ibv_wr_start(self.builder());
    ibv_wr_rdma_write(name_next(self, round), self.peer.rkey, self.peer.address);
    ibv_wr_set_sge(self.builder(), self.mr->lkey, at(self, 0), 8);
    ASSERT_EQ(ibv_wr_complete(self.builder()), 0);
    expect_sent(self, round, IBV_WC_RDMA_WRITE);
  }
}

TEST(FailedBatches, BeforeTheQueuePairIsReady) {
  Endpoint self({.operations = kReliableOperations});
  const auto send = [&self] {
    ibv_wr_start(self.builder());
    ibv_wr_send(name_next(self, 1));
    return ibv_wr_complete(self.builder());
  };
  EXPECT_EQ(send(), EINVAL);
  EXPECT_EQ(self.to_init(), 0);
  EXPECT_EQ(send(), EINVAL);
  EXPECT_EQ(self.to_rtr(self.contact()), 0);
  EXPECT_EQ(send(), EINVAL);
  EXPECT_EQ(self.to_rts(), 0);
  EXPECT_EQ(self.receive(0, 64), 0);
  EXPECT_EQ(send(), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(self.move(IBV_QPS_RESET), 0);
  EXPECT_EQ(send(), EINVAL);
}

TEST(AbortedBatches, PostNothing) {
  Pair pair({.operations = kReliableOperations});
  Endpoint& self = pair.left;
  for (int round = 0; round < 100; ++round) {
    ibv_wr_start(self.builder());
    for (int i = 0; i <= round % 5; ++i) {
      ibv_wr_rdma_write(name_next(self, 5), self.peer.rkey, self.peer.address);
      ibv_wr_set_sge(self.builder(), self.mr->lkey, at(self, 0), 8);
    }
    ibv_wr_abort(self.builder());
  }
  ibv_wr_start(self.builder());
  ibv_wr_abort(self.builder());
  expect_nothing_posted(pair);
}

TEST(BuilderQueuePairs, AreMadeForWhatTheirTypeHas) {
  Endpoint self;
  EXPECT_EQ(self.builder(), nullptr) << "made without send_ops_flags";
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = self.cq;
  wanted.cap = {4, 4, 1, 1, 0};
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = self.pd;
  const auto make = [&](ibv_qp_type type, uint64_t operations) {
    wanted.qp_type = type;
    wanted.send_ops_flags = operations;
    ibv_qp* qp = ibv_create_qp_ex(self.context, &wanted);
    if (qp == nullptr) return errno;
    EXPECT_NE(ibv_qp_to_qp_ex(qp), nullptr);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    return 0;
  };
  EXPECT_EQ(make(IBV_QPT_RC, kReliableOperations), 0);
  EXPECT_EQ(make(IBV_QPT_UC, kUnreliableOperations), 0);
  EXPECT_EQ(make(IBV_QPT_UD, kDatagramOperations), 0);
  EXPECT_EQ(make(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ), EOPNOTSUPP);
  EXPECT_EQ(make(IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD), EOPNOTSUPP);
  EXPECT_EQ(make(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE), EOPNOTSUPP);
  EXPECT_EQ(make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND_WITH_INV), EOPNOTSUPP);
  EXPECT_EQ(make(IBV_QPT_RC, IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
}

}  // namespace
}  // namespace verbatim::conformance
