// SPDX-License-Identifier: MIT
#pragma once

// Two connected queue pairs of one process, for the tests of the libraries.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace verbatim::test {

inline constexpr int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// An opened first device with a domain and a registered buffer.
class Device {
 public:
  explicit Device(size_t bytes = 1 << 16) : memory(bytes) {
    ibv_device** list = ibv_get_device_list(nullptr);
    context = list != nullptr && list[0] != nullptr ? ibv_open_device(list[0]) : nullptr;
    ibv_free_device_list(list);
    if (context == nullptr) return;
    pd = ibv_alloc_pd(context);
    mr = ibv_reg_mr(pd, memory.data(), memory.size(), kAccess);
  }
  ~Device() {
    if (context == nullptr) return;
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  ibv_sge piece(size_t offset, uint32_t length) {
    return {reinterpret_cast<uint64_t>(memory.data() + offset), length, mr->lkey};
  }
  uint64_t address(size_t offset) { return reinterpret_cast<uint64_t>(memory.data() + offset); }

  std::vector<uint8_t> memory;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
};

inline ibv_ah_attr self_address(ibv_context* context) {
  ibv_ah_attr address{};
  address.is_global = 1;
  address.port_num = 1;
  address.grh.hop_limit = 64;
  EXPECT_EQ(ibv_query_gid(context, 1, 0, &address.grh.dgid), 0);
  return address;
}

inline int to_init(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = 0x11;
  attr.qp_access_flags = kAccess;
  const int last = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last);
}

/// From INIT to RTS, connected to `peer`; datagram queue pairs need none.
inline int to_ready(ibv_qp* qp, uint32_t peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  attr.ah_attr = self_address(qp->context);
  int mask = IBV_QP_STATE;
  if (qp->qp_type != IBV_QPT_UD) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (qp->qp_type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (const int error = ibv_modify_qp(qp, &attr, mask)) return error;
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (qp->qp_type == IBV_QPT_RC)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(qp, &attr, mask);
}

struct Shape {
  ibv_qp_type type = IBV_QPT_RC;
  ibv_qp_cap cap{16, 16, 4, 4, 64};
  int cqe = 64;
  bool signal_all = true;
  ibv_srq* srq = nullptr;  ///< of the second end
  uint64_t operations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
};

/// Ends 0 and 1, connected, each with a completion queue of its own.
class Pair {
 public:
  explicit Pair(Device& device, const Shape& shape = {}) : device_(device) {
    for (int end = 0; end < 2; end++) {
      cq[end] = ibv_create_cq(device.context, shape.cqe, nullptr, nullptr, 0);
      ibv_qp_init_attr_ex attr{};
      attr.send_cq = attr.recv_cq = cq[end];
      attr.srq = end == 1 ? shape.srq : nullptr;
      attr.cap = shape.cap;
      attr.qp_type = shape.type;
      attr.sq_sig_all = shape.signal_all ? 1 : 0;
      attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      attr.pd = device.pd;
      attr.send_ops_flags = shape.type == IBV_QPT_UD ? uint64_t{IBV_QP_EX_WITH_SEND} : shape.operations;
      qp[end] = ibv_create_qp_ex(device.context, &attr);
      cap = attr.cap;
    }
    connect();
  }
  ~Pair() {
    for (int end = 0; end < 2; end++) {
      if (qp[end] != nullptr) {
        EXPECT_EQ(ibv_destroy_qp(qp[end]), 0);
      }
      EXPECT_EQ(ibv_destroy_cq(cq[end]), 0);
    }
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void connect() {
    for (int end = 0; end < 2; end++) ASSERT_EQ(to_init(qp[end]), 0);
    for (int end = 0; end < 2; end++) ASSERT_EQ(to_ready(qp[end], qp[1 - end]->qp_num), 0);
  }

  /// An RDMA write of `length` bytes from offset `from` to offset `to`.
  ibv_send_wr write(uint64_t wr_id, ibv_sge& sge, size_t from, size_t to, uint32_t length) {
    sge = device_.piece(from, length);
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = device_.address(to);
    wr.wr.rdma.rkey = device_.mr->rkey;
    return wr;
  }

  int receive(int end, uint64_t wr_id, size_t offset, uint32_t length) {
    ibv_sge sge = device_.piece(offset, length);
    ibv_recv_wr wr{wr_id, nullptr, &sge, 1}, *bad = nullptr;
    return ibv_post_recv(qp[end], &wr, &bad);
  }

  ibv_cq* cq[2] = {};
  ibv_qp* qp[2] = {};
  ibv_qp_cap cap{};

 private:
  Device& device_;
};

/// The next completion; fails the test when none comes for a long time.
inline ibv_wc next(ibv_cq* cq) {
  ibv_wc wc{};
  for (int64_t i = 0; i < 50'000'000; i++) {
    const int found = ibv_poll_cq(cq, 1, &wc);
    if (found == 1) return wc;
    if (found < 0) break;
  }
  ADD_FAILURE() << "no completion";
  wc.status = IBV_WC_GENERAL_ERR;
  return wc;
}

}  // namespace verbatim::test
