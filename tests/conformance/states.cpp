// SPDX-License-Identifier: MIT
// What the states of a queue pair do to its work: errors of the send queue, draining, flushing, starting
// over.
#include <cerrno>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

class States : public Played {};
VERBATIM_PLAY_BOTH_WAYS(States);

/// A send whose local key names nothing.
ibv_send_wr bad_send(Endpoint& self) {
  ibv_send_wr wr = self.request(IBV_WR_SEND, 8);
  wr.sg_list->lkey ^= 0xff00;
  wr.wr_id = 1;
  return wr;
}

/// Of UC and UD only the send queue stops: what comes in still arrives, and it can go on.
Part failing_sender() {
  return [](Endpoint& self) {
    EXPECT_EQ(self.receive(0, 256, 9), 0);
    EXPECT_EQ(self.post(bad_send(self)), 0);
    EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
    EXPECT_EQ(self.wait_status(), IBV_WC_LOC_PROT_ERR);
    const ibv_wc flushed = self.wait();
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(flushed.wr_id, 100u);
    EXPECT_EQ(self.state(), IBV_QPS_SQE);
    EXPECT_TRUE(self.quiet()) << "the receive is not flushed";
    self.barrier();
    const ibv_wc received = self.wait();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.wr_id, 9u);
    self.barrier();
    EXPECT_EQ(self.move(IBV_QPS_RTS), 0);
    EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
    EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  };
}
Part patient_peer() {
  return [](Endpoint& self) {
    EXPECT_EQ(self.receive(0, 256, 4), 0);
    self.barrier();
    EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 16)), 0);
    EXPECT_EQ(self.wait().wr_id, 100u);
    self.barrier();
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, 4u);
  };
}
TEST_P(States, SendErrorOfUcIsRecoveredFrom) { play({.type = IBV_QPT_UC}, failing_sender(), patient_peer()); }
TEST_P(States, SendErrorOfUdIsRecoveredFrom) { play({.type = IBV_QPT_UD}, failing_sender(), patient_peer()); }

TEST_P(States, SendErrorOfRcEndsIt) {
  play(
      {},
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(0, 64, 9), 0);
        EXPECT_EQ(self.post(bad_send(self)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_LOC_PROT_ERR);
        const ibv_wc receive = self.wait();
        EXPECT_EQ(receive.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(receive.wr_id, 9u);
        EXPECT_EQ(self.state(), IBV_QPS_ERR);
        EXPECT_EQ(self.move(IBV_QPS_RTS), EINVAL);
      },
      [](Endpoint&) {});
}

int drain(Endpoint& self, bool notify) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_SQD;
  to.en_sqd_async_notify = notify ? 1 : 0;
  return ibv_modify_qp(self.qp, &to, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

TEST_P(States, DrainedQueueRestsAndGoesOn) {
  play(
      {},
      [](Endpoint& self) {
        EXPECT_EQ(drain(self, true), 0);
        EXPECT_EQ(self.next_event(), IBV_EVENT_SQ_DRAINED) << "there was nothing to drain";
        EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 8)), 0);
        EXPECT_TRUE(self.quiet());
        EXPECT_EQ(self.move(IBV_QPS_RTS), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        EXPECT_EQ(drain(self, false), 0);
        EXPECT_TRUE(self.no_event()) << "not asked for";
        EXPECT_EQ(self.receive(0, 64, 3), 0);
        self.barrier();
        EXPECT_EQ(self.wait().wr_id, 3u) << "receiving goes on";
      },
      [](Endpoint& self) {
        self.barrier();
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
      });
}

TEST_P(States, DrainingWaitsForWhatHasBegun) {
  play({.rnr_retries = 7},
       [](Endpoint& self) {
         EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
         EXPECT_TRUE(self.quiet()) << "the peer has posted no receive";
         EXPECT_EQ(drain(self, true), 0);
         EXPECT_TRUE(self.no_event());
         ibv_qp_attr now{};
         ibv_qp_init_attr made{};
         EXPECT_EQ(ibv_query_qp(self.qp, &now, IBV_QP_STATE, &made), 0);
         EXPECT_EQ(now.qp_state, IBV_QPS_SQD);
         EXPECT_EQ(now.sq_draining, 1);
         EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
         self.barrier();
         EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
         EXPECT_EQ(self.next_event(), IBV_EVENT_SQ_DRAINED);
         EXPECT_EQ(ibv_query_qp(self.qp, &now, IBV_QP_STATE, &made), 0);
         EXPECT_EQ(now.sq_draining, 0);
         EXPECT_TRUE(self.quiet()) << "the second send has not begun";
         EXPECT_EQ(self.move(IBV_QPS_RTS), 0);
         EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
       },
       [](Endpoint& self) {
         self.barrier();
         EXPECT_EQ(self.receive(0, 64, 1), 0);
         EXPECT_EQ(self.receive(0, 64, 2), 0);
         EXPECT_EQ(self.wait().wr_id, 1u);
         EXPECT_EQ(self.wait().wr_id, 2u);
       });
}

TEST_P(States, DrainedQueueTakesNewAttributes) {
  play(
      {},
      [](Endpoint& self) {
        EXPECT_EQ(drain(self, false), 0);
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_SQD;
        to.qp_access_flags = IBV_ACCESS_REMOTE_READ;
        EXPECT_EQ(ibv_modify_qp(self.qp, &to, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), 0);
        EXPECT_EQ(self.move(IBV_QPS_RTS), 0);
        self.barrier();
        self.barrier();
      },
      [](Endpoint& self) {
        self.barrier();
        EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 8)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_ACCESS_ERR) << "writes were allowed before";
        self.barrier();
      });
}

TEST_P(States, ErrorFlushesBothQueuesInOrder) {
  play(
      {.rnr_retries = 7},
      [](Endpoint& self) {
        for (uint64_t id = 0; id < 5; ++id) EXPECT_EQ(self.receive(0, 64, 10 + id), 0);
        for (uint64_t id = 0; id < 5; ++id) {
          ibv_send_wr wr = self.request(IBV_WR_SEND, 8);
          wr.wr_id = 20 + id;
          wr.send_flags = 0;  // a failure completes without having been asked to
          EXPECT_EQ(self.post(wr), 0);
        }
        EXPECT_EQ(self.move(IBV_QPS_ERR), 0);
        uint64_t receives = 10, sends = 20;
        for (int i = 0; i < 10; ++i) {
          const ibv_wc wc = self.wait();
          EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
          EXPECT_EQ(wc.qp_num, self.qp->qp_num);
          EXPECT_EQ(wc.wr_id, wc.wr_id < 20 ? receives++ : sends++);
        }
        EXPECT_EQ(self.receive(0, 64, 30), 0);
        EXPECT_EQ(self.wait().wr_id, 30u);
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
        const ibv_wc late = self.wait();
        EXPECT_EQ(late.wr_id, 100u);
        EXPECT_EQ(late.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_TRUE(self.quiet());
      },
      [](Endpoint&) {});
}

TEST_P(States, ResetDropsEverything) {
  play(
      {.rnr_retries = 7},
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(0, 64), 0);
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
        EXPECT_TRUE(self.quiet());
        const Contact peer = self.peer;
        EXPECT_EQ(self.move(IBV_QPS_RESET), 0);
        EXPECT_TRUE(self.quiet());
        EXPECT_EQ(self.connect(peer), 0);
        EXPECT_TRUE(self.quiet());
        self.barrier();
        EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 8)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
      },
      [](Endpoint& self) {
        const Contact peer = self.peer;
        EXPECT_EQ(self.move(IBV_QPS_RESET), 0);
        EXPECT_EQ(self.connect(peer), 0);
        self.barrier();
      });
}

TEST(EarlyPosts, AreRefusedUntilTheStateAllowsThem) {
  Endpoint self;
  ibv_send_wr wr = self.request(IBV_WR_SEND, 8);
  EXPECT_EQ(self.receive(0, 64), EINVAL);
  EXPECT_EQ(self.post(wr), EINVAL);
  EXPECT_EQ(self.to_init(), 0);
  EXPECT_EQ(self.receive(0, 64), 0);
  EXPECT_EQ(self.post(wr), EINVAL);
  EXPECT_EQ(self.to_rtr(self.contact()), 0);
  EXPECT_EQ(self.post(wr), EINVAL);
  EXPECT_EQ(self.to_rts(), 0);
  wr.wr.rdma = {};
  EXPECT_EQ(self.post(wr), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(self.move(IBV_QPS_RESET), 0);
  EXPECT_EQ(self.receive(0, 64), EINVAL);
  EXPECT_EQ(self.post(wr), EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
