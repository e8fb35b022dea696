// SPDX-License-Identifier: MIT
// Invalidating keys. Only a memory window's can be invalidated: a region's is refused, and stays in force.
#include <cerrno>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

class Invalidation : public Played {};
VERBATIM_PLAY_BOTH_WAYS(Invalidation);

constexpr uint64_t kOperations =
    IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND;

void expect_refused_locally(Endpoint& self) {
  EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 8)), 0);
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(wc.wr_id, 100u);
  EXPECT_EQ(self.wait_status(), IBV_WC_WR_FLUSH_ERR) << "the write behind it";
  EXPECT_EQ(self.state(), IBV_QPS_ERR);
}

/// Goes back to RTS with the same peer and shows that the peer's key still works.
void write_again(Endpoint& self) {
  const Contact peer = self.peer;
  EXPECT_EQ(self.move(IBV_QPS_RESET), 0);
  EXPECT_EQ(self.connect(peer), 0);
  self.barrier();
  EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 8)), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
}
void connect_again(Endpoint& self) {
  const Contact peer = self.peer;
  EXPECT_EQ(self.move(IBV_QPS_RESET), 0);
  EXPECT_EQ(self.connect(peer), 0);
  self.barrier();
}

TEST_P(Invalidation, OfAnOwnRegionIsRefused) {
  play(
      {},
      [](Endpoint& self) {
        ibv_send_wr wr = self.request(IBV_WR_LOCAL_INV, 0);
        wr.num_sge = 0;
        wr.invalidate_rkey = self.mr->rkey;
        EXPECT_EQ(self.post(wr), 0);
        expect_refused_locally(self);
        self.barrier();
        write_again(self);
      },
      [](Endpoint& self) {
        self.barrier();
        connect_again(self);
      });
}

TEST_P(Invalidation, BuiltForAnOwnRegionIsRefused) {
  play(
      {.operations = kOperations},
      [](Endpoint& self) {
        ibv_qp_ex* qp = self.builder();
        ibv_wr_start(qp);
        qp->wr_id = 100;
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_local_inv(qp, self.mr->rkey);
        EXPECT_EQ(ibv_wr_complete(qp), 0);
        expect_refused_locally(self);
      },
      [](Endpoint&) {});
}

void expect_refused_by_peer(Endpoint& self) {
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(wc.wr_id, 100u);
  EXPECT_EQ(self.state(), IBV_QPS_ERR);
}
void expect_refusal(Endpoint& self) {
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_LOC_ACCESS_ERR);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(wc.qp_num, self.qp->qp_num);
  EXPECT_EQ(self.state(), IBV_QPS_ERR);
}

TEST_P(Invalidation, OfThePeersRegionIsRefused) {
  play(
      {},
      [](Endpoint& self) {
        self.barrier();
        ibv_send_wr wr = self.request(IBV_WR_SEND_WITH_INV, 24);
        wr.invalidate_rkey = self.peer.rkey;
        EXPECT_EQ(self.post(wr), 0);
        expect_refused_by_peer(self);
        self.barrier();
        write_again(self);
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(0, 64, 5), 0);
        self.barrier();
        expect_refusal(self);
        self.barrier();
        connect_again(self);
      });
}

TEST_P(Invalidation, BuiltForAKeyThatIsNoneIsRefused) {
  play(
      {.operations = kOperations},
      [](Endpoint& self) {
        self.barrier();
        ibv_qp_ex* qp = self.builder();
        ibv_wr_start(qp);
        qp->wr_id = 100;
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send_inv(qp, 0xdeadbe00);
        ibv_wr_set_inline_data(qp, self.buffer.data(), 16);
        EXPECT_EQ(ibv_wr_complete(qp), 0);
        expect_refused_by_peer(self);
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(0, 64, 5), 0);
        self.barrier();
        expect_refusal(self);
      });
}

TEST(InvalidationRefused, WhereTheTransportHasNone) {
  Pair unreliable({.type = IBV_QPT_UC});
  ibv_send_wr wr = unreliable.left.request(IBV_WR_SEND_WITH_INV, 8);
  EXPECT_EQ(unreliable.left.post(wr), 0);
  EXPECT_EQ(unreliable.left.wait_status(), IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(unreliable.left.state(), IBV_QPS_SQE);
  Pair datagrams({.type = IBV_QPT_UD});
  EXPECT_EQ(datagrams.left.post(datagrams.left.request(IBV_WR_SEND_WITH_INV, 8)), EINVAL);
  EXPECT_EQ(datagrams.left.post(datagrams.left.request(IBV_WR_LOCAL_INV, 0)), EINVAL);
}

TEST(WindowKeys, CountInTheirLastByte) {
  EXPECT_EQ(ibv_inc_rkey(0x12345600), 0x12345601u);
  EXPECT_EQ(ibv_inc_rkey(0x123456ff), 0x12345600u);
}

}  // namespace
}  // namespace verbatim::conformance
