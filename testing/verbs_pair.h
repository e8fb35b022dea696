// SPDX-License-Identifier: MIT
#pragma once

// Two connected queue pairs of one process, for the tests of the libraries.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "testing/queue_pair_steps.h"

namespace verbatim::test {

inline constexpr int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// An opened first device with a domain and a registered buffer.
class Device {
 public:
  explicit Device(size_t bytes = 1 << 16) : memory(bytes) {
    context = open_first_device();
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
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
  return address_of(gid);
}

inline Connection connection_to(ibv_qp* qp, uint32_t peer) {
  Connection to;
  EXPECT_EQ(ibv_query_gid(qp->context, 1, 0, &to.gid), 0);
  to.qpn = peer;
  to.qkey = 0x11;
  to.access = kAccess;
  return to;
}

inline int to_init(ibv_qp* qp) { return step_to_init(qp, connection_to(qp, 0)); }

/// From INIT to RTS, connected to `peer`; datagram queue pairs need none.
inline int to_ready(ibv_qp* qp, uint32_t peer) {
  const Connection to = connection_to(qp, peer);
  if (const int error = step_to_rtr(qp, to)) return error;
  return step_to_rts(qp, to);
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
