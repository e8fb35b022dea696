// SPDX-License-Identifier: MIT
// Completion queues through the libraries: sizes, cleaning, extended polling, and what mlx5dv shows of them.
#include <endian.h>
#include <infiniband/mlx5dv.h>

#include <cerrno>

#include "testing/verbs_pair.h"

namespace verbatim::test {
namespace {

void post_writes(Pair& pair, uint64_t first, uint64_t count) {
  ibv_sge sge;
  ibv_send_wr wr = pair.write(0, sge, 0, 4096, 8), *bad = nullptr;
  for (uint64_t i = 0; i < count; i++) {
    wr.wr_id = first + i;
    ASSERT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), 0);
  }
}

TEST(CompletionQueue, KeepsItsEntriesWhenResized) {
  Device device;
  ASSERT_NE(device.context, nullptr);
  Pair pair(device);
  for (int round = 0; round < 20; round++) {
    post_writes(pair, 100, 10);
    const int size = round % 2 == 0 ? 500 : 20;
    ASSERT_EQ(ibv_resize_cq(pair.cq[0], size), 0);
    EXPECT_GE(pair.cq[0]->cqe, size);
    for (uint64_t i = 0; i < 10; i++) ASSERT_EQ(next(pair.cq[0]).wr_id, 100 + i);
  }
  post_writes(pair, 0, 10);
  EXPECT_EQ(ibv_resize_cq(pair.cq[0], 4), EINVAL);
  for (uint64_t i = 0; i < 10; i++) EXPECT_EQ(next(pair.cq[0]).wr_id, i);
  EXPECT_EQ(ibv_resize_cq(pair.cq[0], 0), EINVAL);
}

// Two queue pairs complete into one queue in turn; one of them goes.
TEST(CompletionQueue, LosesTheEntriesOfADestroyedQueuePair) {
  Device device;
  Pair pair(device), other(device);
  ibv_cq* cq = ibv_create_cq(device.context, 64, nullptr, nullptr, 0);
  ibv_qp* qp[2];
  for (auto& each : qp) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {16, 4, 1, 1, 0};
    attr.qp_type = IBV_QPT_RC;
    attr.sq_sig_all = 1;
    each = ibv_create_qp(device.pd, &attr);
    ASSERT_NE(each, nullptr);
    ASSERT_EQ(to_init(each), 0);
  }
  ASSERT_EQ(to_ready(qp[0], qp[1]->qp_num), 0);
  ASSERT_EQ(to_ready(qp[1], qp[0]->qp_num), 0);
  ibv_sge sge;
  ibv_send_wr wr = pair.write(0, sge, 0, 4096, 8), *bad = nullptr;
  for (uint64_t i = 0; i < 12; i++) {
    wr.wr_id = i;
    ASSERT_EQ(ibv_post_send(qp[i % 2], &wr, &bad), 0);
  }
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  ASSERT_EQ(ibv_destroy_qp(qp[0]), 0);
  for (uint64_t i = 1; i < 12; i += 2) EXPECT_EQ(next(cq).wr_id, i);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
  EXPECT_EQ(ibv_destroy_qp(qp[1]), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST(QueuePair, StartsAfreshAfterReset) {
  Device device;
  Pair pair(device);
  for (int round = 0; round < 5; round++) {
    post_writes(pair, 1000, 7);
    for (int end = 0; end < 2; end++) {
      ibv_qp_attr attr{};
      attr.qp_state = IBV_QPS_RESET;
      ASSERT_EQ(ibv_modify_qp(pair.qp[end], &attr, IBV_QP_STATE), 0);
      EXPECT_EQ(pair.qp[end]->state, IBV_QPS_RESET);
    }
    ibv_wc wc;
    EXPECT_EQ(ibv_poll_cq(pair.cq[0], 1, &wc), 0);
    pair.connect();
    post_writes(pair, 0, pair.cap.max_send_wr);
    for (uint64_t i = 0; i < pair.cap.max_send_wr; i++) ASSERT_EQ(next(pair.cq[0]).wr_id, i);
  }
}

TEST(QueuePair, TellsItsSizesAndState) {
  Device device;
  Pair pair(device);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(pair.qp[0], &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attr.dest_qp_num, pair.qp[1]->qp_num);
  EXPECT_EQ(attr.cap.max_send_wr, pair.cap.max_send_wr);
  EXPECT_EQ(init.cap.max_inline_data, pair.cap.max_inline_data);
  EXPECT_EQ(init.send_cq, pair.cq[0]);
  EXPECT_EQ(init.sq_sig_all, 1);
}

TEST(ExtendedPolling, ReadsEntriesInPlace) {
  Device device;
  ibv_cq_init_attr_ex init{};
  init.cqe = 32;
  init.wc_flags = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* cq = ibv_create_cq_ex(device.context, &init);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(cq);
  attr.cap = {8, 8, 1, 1, 0};
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  ibv_qp* qp = ibv_create_qp(device.pd, &attr);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(to_init(qp), 0);
  ASSERT_EQ(to_ready(qp, qp->qp_num), 0);
  ibv_sge to = device.piece(4096, 64), from = device.piece(0, 24);
  ibv_recv_wr receive{11, nullptr, &to, 1}, *bad_receive = nullptr;
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = 12;
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = htobe32(0xabcd);
  ASSERT_EQ(ibv_post_recv(qp, &receive, &bad_receive), 0);
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  ibv_poll_cq_attr how{};
  bool received = false, sent = false;
  uint64_t last = 0;
  for (int i = 0; i < 1'000'000 && !(received && sent); i++) {
    if (ibv_start_poll(cq, &how) != 0) continue;
    do {
      EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
      EXPECT_EQ(ibv_wc_read_qp_num(cq), qp->qp_num);
      EXPECT_GE(ibv_wc_read_completion_ts(cq), last);
      last = ibv_wc_read_completion_ts(cq);
      EXPECT_NEAR(static_cast<double>(ibv_wc_read_completion_wallclock_ns(cq)) / 1e9,
                  static_cast<double>(time(nullptr)), 5);
      if (cq->wr_id == 11) {
        received = true;
        EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
        EXPECT_EQ(ibv_wc_read_byte_len(cq), 24u);
        EXPECT_EQ(ibv_wc_read_imm_data(cq), htobe32(0xabcd));
        EXPECT_TRUE(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM);
      } else {
        sent = true;
        EXPECT_EQ(cq->wr_id, 12u);
        EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_SEND);
      }
    } while (ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
  }
  EXPECT_TRUE(received && sent);
  EXPECT_EQ(ibv_start_poll(cq, &how), ENOENT);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// A queue for the wall clock alone has it in its entries: seconds, then nanoseconds.
TEST(ExtendedPolling, RealTimeIsInTheEntry) {
  Device device;
  ibv_cq_init_attr_ex init{};
  init.cqe = 4;
  init.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* cq = ibv_create_cq_ex(device.context, &init);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(cq);
  attr.cap = {8, 8, 1, 1, 0};
  attr.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(device.pd, &attr);
  ASSERT_NE(qp, nullptr);
  mlx5dv_cq raw{};
  mlx5dv_obj obj{};
  obj.cq = {attr.send_cq, &raw};
  ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
  mlx5dv_context about{};
  ASSERT_EQ(mlx5dv_query_device(device.context, &about), 0);
  EXPECT_TRUE(about.flags & MLX5DV_CONTEXT_FLAGS_REAL_TIME_TS);
  ASSERT_EQ(to_init(qp), 0);
  ASSERT_EQ(to_ready(qp, qp->qp_num), 0);
  const auto before = static_cast<uint64_t>(time(nullptr));
  ibv_sge piece = device.piece(0, 8);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &piece;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {piece.addr, piece.lkey};
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  ibv_poll_cq_attr how{};
  int found = ENOENT;
  for (int i = 0; i < 1'000'000 && found != 0; i++) found = ibv_start_poll(cq, &how);
  ASSERT_EQ(found, 0);
  const uint64_t entry = be64toh(static_cast<mlx5_cqe64*>(raw.buf)->timestamp);
  EXPECT_GE(entry >> 32, before);
  EXPECT_LE(entry >> 32, before + 5);
  EXPECT_LT(entry & 0xffffffff, 1'000'000'000u);
  EXPECT_EQ(ibv_wc_read_completion_wallclock_ns(cq), (entry >> 32) * 1'000'000'000 + (entry & 0xffffffff));
  ibv_end_poll(cq);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(attr.send_cq), 0);
}

TEST(Direct, ShowsTheQueues) {
  Device device;
  Pair pair(device);
  ASSERT_TRUE(mlx5dv_is_supported(device.context->device));
  mlx5dv_qp qp{};
  mlx5dv_cq cq{};
  mlx5dv_pd pd{};
  mlx5dv_obj obj{};
  obj.qp = {pair.qp[0], &qp};
  obj.cq = {pair.cq[0], &cq};
  obj.pd = {device.pd, &pd};
  ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_PD), 0);
  EXPECT_EQ(qp.sq.stride, 64u);
  EXPECT_EQ(cq.cqe_cnt, 128u);
  post_writes(pair, 1, 1);
  auto* control = static_cast<mlx5_wqe_ctrl_seg*>(qp.sq.buf);
  EXPECT_EQ(be32toh(control->opmod_idx_opcode), static_cast<uint32_t>(MLX5_OPCODE_RDMA_WRITE));
  EXPECT_EQ(be32toh(control->qpn_ds) >> 8, pair.qp[0]->qp_num);
  EXPECT_EQ(be32toh(control->qpn_ds) & 0x3f, 3u);
  EXPECT_EQ(be32toh(qp.dbrec[MLX5_SND_DBR]), 1u);
  EXPECT_EQ(next(pair.cq[0]).wr_id, 1u);
  auto* cqe = static_cast<mlx5_cqe64*>(cq.buf);
  EXPECT_NE(cqe->timestamp, 0u);  // not told to programs of ibv_poll_cq alone
  EXPECT_EQ(mlx5dv_get_cqe_opcode(cqe), MLX5_CQE_REQ);
  EXPECT_EQ(be32toh(cq.dbrec[0]), 1u);
  EXPECT_EQ(mlx5dv_init_obj(&obj, uint64_t{1} << 40), EOPNOTSUPP);
}

}  // namespace
}  // namespace verbatim::test
