// SPDX-License-Identifier: MIT
// DC initiators and targets: every operation, what they refuse, streams, ends that come and go.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "tests/conformance/dc_ends.h"
#include "tests/conformance/initiating.h"

namespace verbatim::conformance {
namespace {

class Dynamic : public Played {};
VERBATIM_PLAY_BOTH_WAYS(Dynamic);

Traits with_srq() {
  Traits traits;
  traits.srq = true;
  return traits;
}

void initiate_everything(Endpoint& self) {
  const uint32_t target = hear(self);
  DcInitiator dci(self);
  word(self, kTold) = dci.qp->qp_num;
  fill(self, 0, 9000, 3);
  self.barrier();
  initiate_operations(self, dci, target);
  EXPECT_EQ(dci.state(), IBV_QPS_RTS);
  self.barrier();
}

void receive_everything(Endpoint& self) {
  DcTarget dct(self);
  for (uint64_t id = 0; id < 3; id++) EXPECT_EQ(self.receive(0, 9000, id), 0);
  tell(self, dct.qp->qp_num);
  self.barrier();
  const struct {
    ibv_wc_opcode opcode;
    uint32_t bytes;
    int immediate;
  } expected[] = {{IBV_WC_RECV, 1000, -1}, {IBV_WC_RECV, 9000, 7}, {IBV_WC_RECV_RDMA_WITH_IMM, 64, 8}};
  uint32_t initiator = 0;
  for (uint64_t id = 0; id < 3; id++) {
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.opcode, expected[id].opcode);
    EXPECT_EQ(wc.byte_len, expected[id].bytes);
    EXPECT_EQ(wc.qp_num, dct.qp->qp_num);
    EXPECT_EQ(wc.wc_flags, expected[id].immediate < 0 ? 0u : unsigned{IBV_WC_WITH_IMM});
    if (expected[id].immediate >= 0) {
      EXPECT_EQ(wc.imm_data, htonl(static_cast<uint32_t>(expected[id].immediate)));
    }
    if (id == 0) initiator = wc.src_qp;
    EXPECT_EQ(wc.src_qp, initiator);
  }
  EXPECT_NE(initiator, 0u);
  EXPECT_NE(initiator, dct.qp->qp_num);
  self.barrier();
  EXPECT_EQ(word(self, kFar), 42u);
  EXPECT_TRUE(self.no_event());
}

TEST_P(Dynamic, EveryOperation) { play(with_srq(), initiate_everything, receive_everything); }

TEST_P(Dynamic, WrongKeysAndRightsFailTheInitiatorOnly) {
  play(
      with_srq(),
      [](Endpoint& self) {
        const uint32_t target = hear(self);
        const auto write = [&](ibv_qp_ex* ex) { ibv_wr_rdma_write(ex, self.peer.rkey, self.peer.address); };
        const auto read = [&](ibv_qp_ex* ex) { ibv_wr_rdma_read(ex, self.peer.rkey, self.peer.address); };
        const auto add = [&](ibv_qp_ex* ex) {
          ibv_wr_atomic_fetch_add(ex, self.peer.rkey, self.peer.address, 1);
        };
        const auto fails = [&](auto&& build, uint64_t key) {
          DcInitiator dci(self);
          EXPECT_EQ(dci.post(1, target, build, 8, 0, key), 0);
          EXPECT_EQ(dci.post(2, target, kSend, 8), 0);
          EXPECT_EQ(self.wait_status(), IBV_WC_REM_ACCESS_ERR);
          EXPECT_EQ(self.wait_status(), IBV_WC_WR_FLUSH_ERR);
          EXPECT_EQ(dci.state(), IBV_QPS_ERR);
          EXPECT_EQ(dci.reset(), 0);
          dci.start();
          EXPECT_EQ(dci.post(3, target, read, 8), 0);
          EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        };
        fails(kSend, kDcKey + 1);
        fails(read, kDcKey << 1);
        fails(write, kDcKey);
        fails(add, kDcKey);
        self.barrier();
      },
      [](Endpoint& self) {
        DcTarget dct(self, IBV_ACCESS_REMOTE_READ);
        tell(self, dct.qp->qp_num);
        self.barrier();
        EXPECT_TRUE(self.quiet());
        EXPECT_TRUE(self.no_event());
      });
}

TEST_P(Dynamic, WaitsForReceiveRequests) {
  play(
      with_srq(),
      [](Endpoint& self) {
        const uint32_t target = hear(self);
        DcInitiator dci(self), impatient(self, -1, 1);
        EXPECT_EQ(impatient.post(1, target, kSend, 100), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_RNR_RETRY_EXC_ERR);
        for (uint64_t id = 0; id < 3; id++) EXPECT_EQ(dci.post(id, target, kSend, 100), 0);
        EXPECT_TRUE(self.quiet());
        self.barrier();
        for (uint64_t id = 0; id < 3; id++) expect_done(self, id, IBV_WC_SEND);
        self.barrier();
      },
      [](Endpoint& self) {
        DcTarget dct(self);
        tell(self, dct.qp->qp_num);
        self.barrier();
        for (uint64_t id = 0; id < 3; id++) EXPECT_EQ(self.receive(0, 100, id), 0);
        for (uint64_t id = 0; id < 3; id++) EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        self.barrier();
      });
}

TEST_P(Dynamic, ManyInitiatorsAndOneTarget) {
  constexpr uint32_t kInitiators = 200, kRounds = 3;
  Traits traits = with_srq();
  traits.depth = kInitiators * kRounds;
  traits.cq_entries = 2 * kInitiators * kRounds;
  play(
      traits,
      [](Endpoint& self) {
        const uint32_t target = hear(self);
        std::vector<std::unique_ptr<DcInitiator>> all;
        for (uint32_t i = 0; i < kInitiators; i++) all.push_back(std::make_unique<DcInitiator>(self));
        for (uint32_t round = 0; round < kRounds; round++)
          for (auto& dci : all)
            EXPECT_EQ(
                dci->post(
                    round, target, [&](ibv_qp_ex* ex) { ibv_wr_send_imm(ex, htonl(dci->qp->qp_num)); }, 8),
                0);
        for (uint32_t i = 0; i < kInitiators * kRounds; i++) ASSERT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        self.barrier();
      },
      [](Endpoint& self) {
        DcTarget dct(self);
        for (uint32_t i = 0; i < kInitiators * kRounds; i++) ASSERT_EQ(self.receive(0, 8, i), 0);
        tell(self, dct.qp->qp_num);
        for (uint32_t i = 0; i < kInitiators * kRounds; i++) {
          const ibv_wc wc = self.wait();
          ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
          EXPECT_EQ(ntohl(wc.imm_data), wc.src_qp);
        }
        self.barrier();
      });
}

TEST_P(Dynamic, AlternatingTargetsAndOneThatGoes) {
  constexpr uint32_t kMessages = 200;
  Traits traits = with_srq();
  traits.depth = 2 * kMessages;
  traits.cq_entries = 4 * kMessages;
  play(
      traits,
      [](Endpoint& self) {
        const uint32_t one = hear(self);
        self.barrier();
        const uint32_t two = hear(self);
        DcInitiator dci(self);
        for (uint32_t i = 0; i < kMessages; i++) {
          EXPECT_EQ(dci.post(
                        i, i % 3 == 0 ? one : two, [i](ibv_qp_ex* ex) { ibv_wr_send_imm(ex, htonl(i)); }, 8),
                    0);
          for (uint32_t n = 0; n < 16 && i % 16 == 15; n++) ASSERT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        }
        for (uint32_t n = 0; n < kMessages % 16; n++) ASSERT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        self.barrier();
        self.barrier();  // `one` is gone
        EXPECT_EQ(dci.post(1, one, kSend, 8), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_RETRY_EXC_ERR);
        EXPECT_EQ(dci.reset(), 0);
        dci.start();
        EXPECT_EQ(dci.post(2, two, kSend, 8), 0);
        expect_done(self, 2, IBV_WC_SEND);
        self.barrier();
      },
      [](Endpoint& self) {
        auto one = std::make_unique<DcTarget>(self);
        DcTarget two(self);
        for (uint32_t i = 0; i <= kMessages; i++) ASSERT_EQ(self.receive(0, 8, i), 0);
        tell(self, one->qp->qp_num);
        self.barrier();  // it has been read
        tell(self, two.qp->qp_num);
        for (uint32_t i = 0; i < kMessages; i++) {
          const ibv_wc wc = self.wait();
          ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
          ASSERT_EQ(ntohl(wc.imm_data), i) << "one initiator's messages keep their order";
          EXPECT_EQ(wc.qp_num, i % 3 == 0 ? one->qp->qp_num : two.qp->qp_num);
        }
        self.barrier();
        one.reset();
        self.barrier();
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        self.barrier();
      });
}

TEST_P(Dynamic, StreamsFailAlone) {
  play(
      with_srq(),
      [](Endpoint& self) {
        const uint32_t target = hear(self);
        DcInitiator dci(self, 1);  // two failed streams are too many
        const auto send = [&](uint64_t id, int stream, uint32_t lkey = 0) {
          EXPECT_EQ(dci.post(id, target, kSend, 8, 0, kDcKey, stream, lkey), 0);
        };
        const uint32_t unsound = self.mr->lkey ^ 1;
        send(1, 1);
        send(2, 2, unsound);
        send(3, 2);
        send(4, 1);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        EXPECT_EQ(self.wait_status(), IBV_WC_LOC_PROT_ERR);
        EXPECT_EQ(self.wait_status(), IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        EXPECT_EQ(dci.state(), IBV_QPS_RTS);
        EXPECT_EQ(mlx5dv_dci_stream_id_reset(dci.qp, 1), EINVAL);
        EXPECT_EQ(mlx5dv_dci_stream_id_reset(dci.qp, 2), 0);
        send(5, 2);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        send(6, 3, unsound);
        send(7, 4, unsound);
        send(8, 1);
        EXPECT_EQ(self.wait_status(), IBV_WC_LOC_PROT_ERR);
        EXPECT_EQ(self.wait_status(), IBV_WC_LOC_PROT_ERR);
        EXPECT_EQ(self.wait_status(), IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(dci.state(), IBV_QPS_ERR);
        EXPECT_EQ(dci.reset(), 0);
        dci.start();
        send(9, 3);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        self.barrier();
      },
      [](Endpoint& self) {
        DcTarget dct(self);
        for (uint64_t id = 0; id < 4; id++) EXPECT_EQ(self.receive(0, 100, id), 0);
        tell(self, dct.qp->qp_num);
        for (uint64_t id = 0; id < 4; id++) EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        self.barrier();
      });
}

TEST(DynamicRules, CreationAndQueries) {
  Endpoint self(with_srq());
  const auto error_of = [&](ibv_qp_init_attr_ex wanted, mlx5dv_qp_init_attr special) {
    errno = 0;
    ibv_qp* qp = mlx5dv_create_qp(self.context, &wanted, &special);
    if (qp != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    return errno;
  };
  const mlx5dv_qp_init_attr target = dc_special(MLX5DV_DCTYPE_DCT, kDcKey),
                            initiator = dc_special(MLX5DV_DCTYPE_DCI);
  ibv_qp_init_attr_ex wanted = dc_attributes(self);
  EXPECT_EQ(error_of(wanted, target), 0);
  EXPECT_EQ(error_of(wanted, initiator), 0);
  EXPECT_EQ(error_of(wanted, {}), EINVAL) << "neither";
  wanted.srq = nullptr;
  EXPECT_EQ(error_of(wanted, target), EINVAL) << "no SRQ";
  wanted = dc_attributes(self);
  wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  EXPECT_EQ(error_of(wanted, target), EINVAL) << "a target sends nothing";
  wanted = dc_attributes(self);
  wanted.qp_type = IBV_QPT_RC;
  EXPECT_EQ(error_of(wanted, initiator), EINVAL);
  wanted = dc_attributes(self);
  mlx5dv_context device{};
  device.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS | MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM;
  ASSERT_EQ(mlx5dv_query_device(self.context, &device), 0);
  EXPECT_GT(device.max_dc_rd_atom, 0u);
  mlx5dv_qp_init_attr streams = initiator;
  streams.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
  const uint8_t most = device.dci_streams_caps.max_log_num_concurent;
  streams.dc_init_attr.dci_streams = {most, device.dci_streams_caps.max_log_num_errored};
  EXPECT_EQ(error_of(wanted, streams), 0);
  streams.dc_init_attr.dci_streams.log_num_concurent = static_cast<uint8_t>(most + 1);
  EXPECT_EQ(error_of(wanted, streams), EINVAL);
  mlx5dv_qp_init_attr flagged = initiator;
  flagged.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  flagged.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
  EXPECT_EQ(error_of(wanted, flagged), 0);
  flagged.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
  EXPECT_EQ(error_of(wanted, flagged), 0);
  flagged.create_flags = MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE;
  EXPECT_EQ(error_of(wanted, flagged), EINVAL);
}

TEST(DynamicRules, ATargetGetsItsNumberOnTheWayToRtr) {
  Endpoint self(with_srq());
  ibv_qp_init_attr_ex wanted = dc_attributes(self);
  mlx5dv_qp_init_attr special = dc_special(MLX5DV_DCTYPE_DCT, kDcKey);
  ibv_qp* qp = mlx5dv_create_qp(self.context, &wanted, &special);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(qp->qp_num, 0u);
  EXPECT_EQ(ibv_query_qp(qp, &now, IBV_QP_STATE, &made), EINVAL);
  EXPECT_EQ(dc_to_init(qp, kAllRights, false), EINVAL) << "without access flags";
  EXPECT_EQ(dc_to_init(qp, IBV_ACCESS_REMOTE_READ, true), 0);
  EXPECT_EQ(dc_to_rtr(qp, true), 0);
  EXPECT_NE(qp->qp_num, 0u);
  ASSERT_EQ(ibv_query_qp(qp, &now, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MTU, &made), 0);
  EXPECT_EQ(now.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(now.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(now.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(made.qp_type, IBV_QPT_DRIVER);
  EXPECT_EQ(ibv_query_qp(qp, &now, IBV_QP_SQ_PSN, &made), EINVAL);
  ibv_qp_attr reset{};
  EXPECT_EQ(ibv_modify_qp(qp, &reset, IBV_QP_STATE), EINVAL) << "there is no way back";
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST(DynamicRules, AnInitiatorIsDrivenByBuildersOnly) {
  Pair pair(with_srq());
  DcInitiator dci(pair.left);
  ibv_send_wr wr = pair.left.request(IBV_WR_SEND, 8), *bad = nullptr;
  EXPECT_EQ(ibv_post_send(dci.qp, &wr, &bad), EINVAL);
  EXPECT_EQ(mlx5dv_dci_stream_id_reset(dci.qp, 0), EINVAL);
  EXPECT_EQ(mlx5dv_dci_stream_id_reset(pair.left.qp, 0), EINVAL) << "no DC initiator";
  EXPECT_EQ(dci.reset(), 0);
  EXPECT_EQ(mlx5dv_dci_stream_id_reset(dci.qp, 0), EOPNOTSUPP);
  ibv_wr_start(dci.ex);
  ibv_wr_send(dci.ex);
  EXPECT_EQ(ibv_wr_complete(dci.ex), EINVAL) << "not in RTS";
}

/// Sends without end until it is killed.
[[noreturn]] void flood(uint32_t target, const Contact& peer) {
  Endpoint self(with_srq());
  self.peer = peer;
  DcInitiator dci(self);
  for (;;) {
    if (dci.post(1, target, kSend, kBuffer / 2) == 0) (void)self.wait();
  }
}

TEST(DynamicEnds, ATargetOutlivesKilledInitiators) {
  constexpr int kVictims = 5;
  Endpoint self(with_srq());
  self.peer = self.contact();
  DcTarget dct(self);
  int received = 0;
  const auto take = [&](int more) {
    for (const int until = received + more; received < until;) {
      const ibv_wc wc = self.wait();
      if (wc.status == IBV_WC_SUCCESS)
        received++;
      else
        ASSERT_EQ(wc.status, IBV_WC_REM_ABORT_ERR) << "a message that its sender did not end";
      ASSERT_EQ(self.receive(0, kBuffer / 2), 0);
    }
  };
  for (int i = 0; i < 16; i++) ASSERT_EQ(self.receive(0, kBuffer / 2), 0);
  for (int i = 0; i < kVictims; i++) {
    const pid_t victim = fork();
    if (victim == 0) flood(dct.qp->qp_num, self.peer);
    take(20);
    EXPECT_EQ(kill(victim, SIGKILL), 0);
    EXPECT_EQ(waitpid(victim, nullptr, 0), victim);
  }
  DcInitiator dci(self);
  EXPECT_EQ(dci.post(77, dct.qp->qp_num, kSend, 8), 0);
  bool sent = false, arrived = false;
  while (!sent || !arrived) {
    const ibv_wc wc = self.wait();
    sent |= wc.wr_id == 77 && wc.status == IBV_WC_SUCCESS;
    arrived |= wc.opcode == IBV_WC_RECV && wc.src_qp == dci.qp->qp_num;
    ASSERT_TRUE(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_REM_ABORT_ERR) << wc.status;
  }
}

TEST(DynamicEnds, AnInitiatorNoticesAKilledTarget) {
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t victim = fork();
  if (victim == 0) {
    Endpoint self(with_srq());
    DcTarget dct(self);
    (void)!write(told[1], &dct.qp->qp_num, sizeof dct.qp->qp_num);
    for (;;) pause();
  }
  uint32_t target = 0;
  ASSERT_EQ(read(told[0], &target, sizeof target), static_cast<ssize_t>(sizeof target));
  Endpoint self(with_srq());
  self.peer = self.contact();
  DcTarget here(self);
  DcInitiator dci(self);
  EXPECT_EQ(dci.post(1, target, kSend, 8), 0);  // waits: nothing is posted there
  EXPECT_TRUE(self.quiet());
  EXPECT_EQ(kill(victim, SIGKILL), 0);
  EXPECT_EQ(waitpid(victim, nullptr, 0), victim);
  EXPECT_EQ(self.wait_status(), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(dci.state(), IBV_QPS_ERR);
  EXPECT_EQ(dci.reset(), 0);
  dci.start();
  EXPECT_EQ(self.receive(0, 8, 5), 0);
  EXPECT_EQ(dci.post(2, here.qp->qp_num, kSend, 8), 0);
  for (int i = 0; i < 2; i++) EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  close(told[0]);
  close(told[1]);
}

}  // namespace
}  // namespace verbatim::conformance
