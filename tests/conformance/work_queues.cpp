// SPDX-License-Identifier: MIT
// Work queues of their own, tables of them, and queue pairs that spread over a table: memory, doorbell
// record, states and completions of what is flushed. spreading.cpp has the frames.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <array>
#include <cerrno>
#include <vector>

#include "abi/prm/raw_queues.h"
#include "abi/prm/receive_steering.h"
#include "device/connectx/formats.h"
#include "device/connectx/prm/object_limits.h"
#include "tests/conformance/mail.h"

namespace verbatim::conformance {
namespace {

class WorkQueues : public Devx {
 protected:
  void SetUp() override {
    Devx::SetUp();
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    ASSERT_TRUE(pd != nullptr && cq != nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  }
  ibv_wq_init_attr attributes() const {
    ibv_wq_init_attr init{};
    init.wq_context = &marker;
    init.wq_type = IBV_WQT_RQ;
    init.max_wr = 5;
    init.max_sge = 3;
    init.pd = pd;
    init.cq = cq;
    return init;
  }
  ibv_wq* make() const {
    ibv_wq_init_attr init = attributes();
    return ibv_create_wq(context, &init);
  }
  static int move(ibv_wq* wq, ibv_wq_state to) {
    ibv_wq_attr attr{};
    attr.attr_mask = IBV_WQ_ATTR_STATE;
    attr.wq_state = to;
    return ibv_modify_wq(wq, &attr);
  }
  static int post(ibv_wq* wq, uint64_t id, uint32_t bytes) {
    std::array<ibv_sge, 2> pieces{{{0x1000, bytes, 7}, {0x2000, bytes, 8}}};
    ibv_recv_wr wr{id, nullptr, pieces.data(), 2}, *bad = nullptr;
    return ibv_post_wq_recv(wq, &wr, &bad);
  }
  static mlx5dv_rwq shown(ibv_wq* wq) {
    mlx5dv_rwq raw{};
    mlx5dv_obj objects{};
    objects.rwq = {wq, &raw};
    EXPECT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_RWQ), 0);
    return raw;
  }
  static const connectx::DataSegment* entry(const mlx5dv_rwq& raw, uint32_t index, uint32_t offset = 0) {
    return reinterpret_cast<const connectx::DataSegment*>(static_cast<const char*>(raw.buf) +
                                                          size_t{index} * raw.stride + offset);
  }
  static uint32_t posted(const mlx5dv_rwq& raw) {
    return connectx::Be32::from_raw(raw.dbrec[connectx::kReceiveDoorbell]);
  }
  ibv_rwq_ind_table* table_of(std::vector<ibv_wq*> queues, uint32_t log) const {
    ibv_rwq_ind_table_init_attr init{log, queues.data(), 0};
    return ibv_create_rwq_ind_table(context, &init);
  }

  mutable int marker = 0;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
};

TEST_F(WorkQueues, AreMadeWithSizesAndShown) {
  ibv_wq_init_attr init = attributes();
  ibv_wq* wq = ibv_create_wq(context, &init);
  ASSERT_NE(wq, nullptr);
  EXPECT_EQ(init.max_wr, 8u);
  EXPECT_EQ(init.max_sge, 4u);
  EXPECT_EQ(wq->wq_context, &marker);
  EXPECT_EQ(wq->state, IBV_WQS_RESET);
  EXPECT_NE(wq->wq_num, 0u);
  const mlx5dv_rwq raw = shown(wq);
  EXPECT_EQ(raw.wqe_cnt, 8u);
  EXPECT_EQ(raw.stride, 64u);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  EXPECT_EQ(ibv_destroy_wq(wq), 0);
}

// So that the same record makes another one.
TEST_F(WorkQueues, SayNoMoreElementsThanTheDeviceTakes) {
  ibv_wq_init_attr init = attributes();
  init.max_sge = 30;
  for (int i = 0; i < 2; i++) {
    ibv_wq* wq = ibv_create_wq(context, &init);
    ASSERT_NE(wq, nullptr);
    EXPECT_EQ(init.max_sge, 30u);
    EXPECT_EQ(ibv_destroy_wq(wq), 0);
  }
}

TEST_F(WorkQueues, AreRefusedWithWhatNoPacketGets) {
  const auto refused = [this](auto change, int error) {
    ibv_wq_init_attr init = attributes();
    change(init);
    errno = 0;
    return ibv_create_wq(context, &init) == nullptr && errno == error;
  };
  EXPECT_TRUE(refused([](auto& i) { i.max_wr = 0; }, EINVAL));
  EXPECT_TRUE(refused([](auto& i) { i.max_wr = 40000; }, EINVAL));
  EXPECT_TRUE(refused([](auto& i) { i.max_sge = 1000; }, EINVAL));
  EXPECT_TRUE(refused([](auto& i) { i.cq = nullptr; }, EINVAL));
  EXPECT_TRUE(refused([](auto& i) { i.comp_mask = IBV_WQ_INIT_ATTR_RESERVED; }, EINVAL));
  ibv_device_attr_ex limits{};
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &limits), 0);
  EXPECT_GT(limits.max_wq_type_rq, 0u);
  EXPECT_GE(limits.rss_caps.max_rwq_indirection_table_size, 512u);
}

TEST_F(WorkQueues, TakeReceivesIntoTheirMemory) {
  ibv_wq* wq = make();
  ASSERT_NE(wq, nullptr);
  ASSERT_EQ(move(wq, IBV_WQS_RDY), 0);
  const mlx5dv_rwq raw = shown(wq);
  for (uint64_t id = 0; id < 8; id++) EXPECT_EQ(post(wq, id, 256), 0);
  EXPECT_EQ(post(wq, 9, 256), ENOMEM) << "it is full";
  EXPECT_EQ(posted(raw), 8u);
  EXPECT_EQ(entry(raw, 7)[0].byte_count, 256u);
  EXPECT_EQ(entry(raw, 7)[1].lkey, 8u);
  EXPECT_EQ(entry(raw, 7)[1].address, 0x2000u);
  EXPECT_EQ(entry(raw, 7)[2].lkey, connectx::kInvalidKey);
  EXPECT_EQ(ibv_destroy_wq(wq), 0);
}

TEST_F(WorkQueues, GoTheirWayAndFlushWhatWasPosted) {
  ibv_wq* wq = make();
  ASSERT_NE(wq, nullptr);
  EXPECT_EQ(move(wq, IBV_WQS_ERR), EINVAL) << "not from RESET";
  ASSERT_EQ(move(wq, IBV_WQS_RDY), 0);
  EXPECT_EQ(wq->state, IBV_WQS_RDY);
  EXPECT_EQ(post(wq, 71, 64), 0);
  EXPECT_EQ(post(wq, 72, 64), 0);
  ibv_wq_attr attr{};
  attr.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
  attr.curr_wq_state = IBV_WQS_RESET;
  attr.wq_state = IBV_WQS_ERR;
  EXPECT_EQ(ibv_modify_wq(wq, &attr), EINVAL) << "it is not in RESET";
  ASSERT_EQ(move(wq, IBV_WQS_ERR), 0);
  std::array<ibv_wc, 4> done{};
  ASSERT_EQ(ibv_poll_cq(cq, 4, done.data()), 2);
  EXPECT_EQ(done[0].wr_id, 71u);
  EXPECT_EQ(done[1].wr_id, 72u);
  EXPECT_EQ(done[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(done[1].qp_num, wq->wq_num);
  EXPECT_EQ(post(wq, 73, 64), 0);
  ASSERT_EQ(ibv_poll_cq(cq, 4, done.data()), 1) << "what is posted later flushes, too";
  EXPECT_EQ(done[0].wr_id, 73u);
  EXPECT_EQ(done[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(move(wq, IBV_WQS_RDY), EINVAL);
  ASSERT_EQ(move(wq, IBV_WQS_RESET), 0);
  EXPECT_EQ(posted(shown(wq)), 0u);
  ASSERT_EQ(move(wq, IBV_WQS_RDY), 0);
  attr.attr_mask = IBV_WQ_ATTR_FLAGS;
  attr.flags_mask = attr.flags = IBV_WQ_FLAGS_SCATTER_FCS;
  EXPECT_EQ(ibv_modify_wq(wq, &attr), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_wq(wq), 0);
}

TEST_F(WorkQueues, MayHaveStrides) {
  mlx5dv_context device{};
  device.comp_mask = MLX5DV_CONTEXT_MASK_STRIDING_RQ;
  ASSERT_EQ(mlx5dv_query_device(context, &device), 0);
  const auto& caps = device.striding_rq_caps;
  EXPECT_EQ(caps.min_single_stride_log_num_of_bytes, prm::kLogStrideBytesMin);
  EXPECT_EQ(caps.min_single_wqe_log_num_of_strides, 3u);
  EXPECT_TRUE(ibv_is_qpt_supported(caps.supported_qpts, IBV_QPT_RAW_PACKET));
  ibv_wq_init_attr init = attributes();
  init.max_sge = 1;
  mlx5dv_wq_init_attr special{};
  special.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
  special.striding_rq_attrs = {caps.max_single_stride_log_num_of_bytes,
                               caps.max_single_wqe_log_num_of_strides, 1};
  ibv_wq* wq = mlx5dv_create_wq(context, &init, &special);
  ASSERT_NE(wq, nullptr);
  EXPECT_EQ(wq->wq_context, &marker);
  ASSERT_EQ(move(wq, IBV_WQS_RDY), 0);
  EXPECT_EQ(post(wq, 1, 64), EINVAL) << "two elements";
  ibv_sge piece{0x3000, 4096, 9};
  ibv_recv_wr wr{1, nullptr, &piece, 1}, *bad = nullptr;
  EXPECT_EQ(ibv_post_wq_recv(wq, &wr, &bad), 0);
  const mlx5dv_rwq raw = shown(wq);
  EXPECT_EQ(raw.stride, 32u);
  EXPECT_EQ(entry(raw, 0, 16)->lkey, 9u) << "behind the link";
  Mail<prm::QueryRq> query;
  query.in.set(prm::QueryRqIn::rqn, wq->wq_num);
  ASSERT_EQ(query.query(wq), 0);
  const auto queue = query.out[prm::QueryRqOut::rq_context][prm::Rqc::wq];
  EXPECT_EQ(queue.as<prm::WqType>(prm::Wq::wq_type), prm::WqType::kCyclicStridingRq);
  EXPECT_EQ(queue[prm::Wq::log_wqe_stride_size], 7u);
  EXPECT_TRUE(queue[prm::Wq::two_byte_shift_en]);
  EXPECT_EQ(ibv_destroy_wq(wq), 0);
  special.striding_rq_attrs.single_stride_log_num_of_bytes++;
  EXPECT_EQ(mlx5dv_create_wq(context, &init, &special), nullptr);
  EXPECT_EQ(errno, EINVAL);
  special.comp_mask = 1 << 5;
  EXPECT_EQ(mlx5dv_create_wq(context, &init, &special), nullptr);
  EXPECT_EQ(errno, EINVAL);
  wq = mlx5dv_create_wq(context, &init, nullptr);
  ASSERT_NE(wq, nullptr);
  EXPECT_EQ(ibv_destroy_wq(wq), 0);
}

TEST_F(WorkQueues, AreAskedAndMovedByCommand) {
  ibv_wq* wq = make();
  ASSERT_NE(wq, nullptr);
  Mail<prm::ModifyRq> modify;
  modify.in.set(prm::ModifyRqIn::rqn, wq->wq_num);
  modify.in[prm::ModifyRqIn::ctx].set(prm::Rqc::state, prm::RqState::kRdy);
  ASSERT_EQ(modify.modify(wq), 0) << modify.status();
  EXPECT_EQ(wq->state, IBV_WQS_RDY);
  EXPECT_EQ(modify.modify(wq), EREMOTEIO) << "it is in RDY now";
  EXPECT_EQ(modify.status(), static_cast<uint32_t>(prm::Status::kBadResStateErr));
  Mail<prm::QueryRq> query;
  query.in.set(prm::QueryRqIn::rqn, wq->wq_num);
  ASSERT_EQ(query.query(wq), 0);
  EXPECT_EQ(query.out[prm::QueryRqOut::rq_context].as<prm::RqState>(prm::Rqc::state), prm::RqState::kRdy);
  EXPECT_EQ(query.out[prm::QueryRqOut::rq_context][prm::Rqc::wq][prm::Wq::log_wq_sz], 3u);
  query.in.set(prm::QueryRqIn::rqn, wq->wq_num + 1);
  EXPECT_EQ(query.query(wq), EINVAL) << "another queue";
  EXPECT_EQ(post(wq, 5, 64), 0);
  modify.in.set(prm::ModifyRqIn::rq_state, prm::RqState::kRdy);
  modify.in[prm::ModifyRqIn::ctx].set(prm::Rqc::state, prm::RqState::kRst);
  ASSERT_EQ(modify.modify(wq), 0);
  EXPECT_EQ(wq->state, IBV_WQS_RESET);
  EXPECT_EQ(posted(shown(wq)), 0u) << "the host's side knows";
  EXPECT_EQ(ibv_destroy_wq(wq), 0);
}

TEST_F(WorkQueues, FormTablesThatChangeByCommand) {
  ibv_wq *one = make(), *two = make();
  ibv_rwq_ind_table* table = table_of({one, two, one, two}, 2);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(ibv_destroy_wq(two), EBUSY);
  Mail<prm::QueryRqt> query(4 * 4);
  query.in.set(prm::QueryRqtIn::rqtn, table->ind_tbl_num);
  ASSERT_EQ(query.query(table), 0) << query.status();
  const auto shown = query.out[prm::QueryRqtOut::rqt_context];
  EXPECT_EQ(shown[prm::Rqtc::rqt_actual_size], 4u);
  EXPECT_EQ(shown.at(prm::Rqtc::rq_num, 3)[prm::RqNum::rq_num], two->wq_num);
  Mail<prm::ModifyRqt> modify(2 * 4);
  modify.in.set(prm::ModifyRqtIn::rqtn, table->ind_tbl_num);
  modify.in[prm::ModifyRqtIn::bitmask].set(prm::RqtBitmask::rqn_list, true);
  const auto wanted = modify.in[prm::ModifyRqtIn::ctx];
  wanted.set(prm::Rqtc::rqt_actual_size, 2);
  for (size_t i = 0; i < 2; i++) wanted.at(prm::Rqtc::rq_num, i).set(prm::RqNum::rq_num, one->wq_num);
  ASSERT_EQ(modify.modify(table), 0) << modify.status();
  EXPECT_EQ(ibv_destroy_wq(two), 0);
  EXPECT_EQ(ibv_destroy_wq(one), EBUSY);
  EXPECT_EQ(ibv_destroy_rwq_ind_table(table), 0);
  EXPECT_EQ(table_of({one}, 12), nullptr) << "too many";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_destroy_wq(one), 0);
}

/// A queue pair over a table of two queues.
class Spreading : public WorkQueues {
 protected:
  void SetUp() override {
    WorkQueues::SetUp();
    one = make();
    two = make();
    table = table_of({one, two}, 1);
    ASSERT_NE(table, nullptr);
    for (size_t i = 0; i < key.size(); i++) key[i] = static_cast<uint8_t>(i + 1);
    init.qp_type = IBV_QPT_RAW_PACKET;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    init.pd = pd;
    init.rwq_ind_tbl = table;
    init.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, static_cast<uint8_t>(key.size()), key.data(),
                         IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_PORT_UDP};
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_rwq_ind_table(table), 0);
    EXPECT_EQ(ibv_destroy_wq(one), 0);
    EXPECT_EQ(ibv_destroy_wq(two), 0);
    WorkQueues::TearDown();
  }
  int refused() {
    errno = 0;
    return ibv_create_qp_ex(context, &init) == nullptr ? errno : 0;
  }
  std::array<uint8_t, 40> key{};
  ibv_qp_init_attr_ex init{};
  ibv_wq *one = nullptr, *two = nullptr;
  ibv_rwq_ind_table* table = nullptr;
};

TEST_F(Spreading, IsMadeOverATableAndHasNoStates) {
  ibv_qp* qp = ibv_create_qp_ex(context, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_rwq_ind_table(table), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EOPNOTSUPP);
  ibv_qp_init_attr plain{};
  EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &plain), EOPNOTSUPP);
  ibv_sge piece{};
  ibv_recv_wr receive{1, nullptr, &piece, 1}, *bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), EINVAL);
  ibv_send_wr send{}, *bad_send = nullptr;
  EXPECT_NE(ibv_post_send(qp, &send, &bad_send), 0);
  mlx5dv_qp raw{};
  raw.comp_mask = MLX5DV_QP_MASK_RAW_QP_HANDLES;
  mlx5dv_obj objects{};
  objects.qp = {qp, &raw};
  ASSERT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_QP), 0);
  EXPECT_NE(raw.tirn, 0u);
  EXPECT_EQ(raw.comp_mask, uint64_t{MLX5DV_QP_MASK_RAW_QP_HANDLES});
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Spreading, IsRefusedOverHashesThatNoPacketHas) {
  init.rx_hash_conf.rx_hash_key_len = 39;
  EXPECT_EQ(refused(), EINVAL);
  init.rx_hash_conf.rx_hash_key_len = 40;
  init.rx_hash_conf.rx_hash_fields_mask |= IBV_RX_HASH_SRC_IPV4;
  EXPECT_EQ(refused(), EINVAL);
  init.rx_hash_conf.rx_hash_fields_mask = IBV_RX_HASH_INNER;
  EXPECT_EQ(refused(), EOPNOTSUPP) << "tunnels are to be looked into by mlx5dv_create_qp";
  init.rx_hash_conf.rx_hash_fields_mask = 0;
  init.rx_hash_conf.rx_hash_function = 0;
  EXPECT_EQ(refused(), EOPNOTSUPP);
  init.rx_hash_conf.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
  init.qp_type = IBV_QPT_UD;
  EXPECT_EQ(refused(), EOPNOTSUPP);
  init.qp_type = IBV_QPT_RAW_PACKET;
  init.comp_mask &= ~IBV_QP_INIT_ATTR_RX_HASH;
  EXPECT_EQ(refused(), EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
