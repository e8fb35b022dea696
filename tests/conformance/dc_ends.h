// SPDX-License-Identifier: MIT
#pragma once

// DC initiators and targets on the objects of a player, as programs make them.

#include <infiniband/mlx5dv.h>

#include "tests/conformance/players.h"

namespace verbatim::conformance {

inline constexpr uint64_t kDcKey = 0x0123456789abcdef;
inline constexpr uint64_t kDcOperations =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV;

/// Queues that DC queue pairs of a player complete into.
inline ibv_qp_init_attr_ex dc_attributes(const Endpoint& self) {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = self.cq;
  wanted.srq = self.srq;
  wanted.qp_type = IBV_QPT_DRIVER;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = self.pd;
  return wanted;
}

inline mlx5dv_qp_init_attr dc_special(mlx5dv_dc_type type, uint64_t key = 0) {
  mlx5dv_qp_init_attr special{};
  special.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
  special.dc_init_attr.dc_type = type;
  special.dc_init_attr.dct_access_key = key;
  return special;
}

inline int dc_to_init(ibv_qp* qp, unsigned int access, bool target) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = access;
  return ibv_modify_qp(
      qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (target ? int{IBV_QP_ACCESS_FLAGS} : 0));
}

inline int dc_to_rtr(ibv_qp* qp, bool target) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.hop_limit = 64;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | (target ? int{IBV_QP_MIN_RNR_TIMER} : 0));
}

/// A target in RTR.
class DcTarget {
 public:
  explicit DcTarget(Endpoint& self, unsigned int access = kAllRights, uint64_t key = kDcKey) {
    ibv_qp_init_attr_ex wanted = dc_attributes(self);
    mlx5dv_qp_init_attr special = dc_special(MLX5DV_DCTYPE_DCT, key);
    qp = mlx5dv_create_qp(self.context, &wanted, &special);
    if (qp == nullptr) throw std::runtime_error("mlx5dv_create_qp");
    EXPECT_EQ(dc_to_init(qp, access, true), 0);
    EXPECT_EQ(dc_to_rtr(qp, true), 0);
  }
  ~DcTarget() { EXPECT_EQ(ibv_destroy_qp(qp), 0); }
  DcTarget(const DcTarget&) = delete;

  ibv_qp* qp = nullptr;
};

/// An initiator in RTS, which builds requests for one target.
class DcInitiator {
 public:
  /// `streams`: log_num_errored, -1: without streams.
  explicit DcInitiator(Endpoint& self, int streams = -1, uint8_t rnr_retries = 7)
      : self_(self), rnr_(rnr_retries) {
    ibv_qp_init_attr_ex wanted = dc_attributes(self);
    wanted.cap = {32, 0, 4, 0, 64};
    wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.send_ops_flags = kDcOperations;
    mlx5dv_qp_init_attr special = dc_special(MLX5DV_DCTYPE_DCI);
    if (streams >= 0) {
      special.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
      special.dc_init_attr.dci_streams = {2, static_cast<uint8_t>(streams)};
    }
    qp = mlx5dv_create_qp(self.context, &wanted, &special);
    if (qp == nullptr) throw std::runtime_error("mlx5dv_create_qp");
    ex = ibv_qp_to_qp_ex(qp);
    direct = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
    ibv_ah_attr address = test::address_of(self.peer.gid, self.peer.lid);
    ah = ibv_create_ah(self.pd, &address);
    start();
  }
  ~DcInitiator() {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
  }
  DcInitiator(const DcInitiator&) = delete;

  void start() {
    EXPECT_EQ(dc_to_init(qp, 0, false), 0);
    EXPECT_EQ(dc_to_rtr(qp, false), 0);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 12;
    attr.retry_cnt = 3;
    attr.rnr_retry = rnr_;
    attr.max_rd_atomic = 4;
    EXPECT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }
  int reset() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  }
  ibv_qp_state state() const {
    ibv_qp_attr now{};
    ibv_qp_init_attr made{};
    EXPECT_EQ(ibv_query_qp(qp, &now, IBV_QP_STATE, &made), 0);
    return now.qp_state;
  }

  /// One request with `bytes` of the buffer at `offset`; `build` begins it.
  template <class Build>
  int post(uint64_t id, uint32_t target, Build&& build, size_t bytes, size_t offset = 0,
           uint64_t key = kDcKey, int stream = -1, uint32_t lkey = 0) {
    ibv_wr_start(ex);
    ex->wr_id = id;
    ex->wr_flags = IBV_SEND_SIGNALED;
    build(ex);
    if (stream < 0)
      mlx5dv_wr_set_dc_addr(direct, ah, target, key);
    else
      mlx5dv_wr_set_dc_addr_stream(direct, ah, target, key, static_cast<uint16_t>(stream));
    ibv_wr_set_sge(ex, lkey != 0 ? lkey : self_.mr->lkey,
                   reinterpret_cast<uint64_t>(self_.buffer.data() + offset), static_cast<uint32_t>(bytes));
    return ibv_wr_complete(ex);
  }

  ibv_qp* qp = nullptr;
  ibv_qp_ex* ex = nullptr;
  mlx5dv_qp_ex* direct = nullptr;
  ibv_ah* ah = nullptr;

 private:
  Endpoint& self_;
  uint8_t rnr_;
};

/// The passive player tells the number of a target through its buffer; the active one reads it there.
inline constexpr size_t kTold = kBuffer - 64;

inline void tell(Endpoint& self, uint64_t number) {
  word(self, kTold) = number;
  self.barrier();
}
inline uint32_t hear(Endpoint& self) {
  self.barrier();
  EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_READ, 8, kTold), kTold), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  return static_cast<uint32_t>(word(self, kTold));
}

}  // namespace verbatim::conformance
