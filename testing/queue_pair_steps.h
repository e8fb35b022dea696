// SPDX-License-Identifier: MIT
#pragma once

// The way of a queue pair from RESET to RTS through the public interface: each step with the attributes that
// its service type needs.

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbatim::test {

/// Whom a queue pair is connected to, and how patient it is. Units as in ibv_qp_attr. A datagram queue pair
/// uses the Q_Key and its own PSN only.
struct Connection {
  ibv_gid gid{};          ///< of the peer
  uint16_t lid = 0;       ///< of the peer, when it is on InfiniBand
  uint8_t gid_index = 0;  ///< of this end's address
  uint32_t qpn = 0;
  uint32_t receive_psn = 0, send_psn = 0;
  uint32_t qkey = 0;
  unsigned int access = 0;
  uint8_t reads = 4;  ///< outstanding at a time, in each direction
  uint8_t timeout = 14, retries = 7, rnr_retries = 7, rnr_timer = 1;
};

/// The address of a port on this host or its network; one on InfiniBand is found by its LID alone.
inline ibv_ah_attr address_of(const ibv_gid& gid, uint16_t lid = 0) {
  ibv_ah_attr address{};
  address.is_global = lid == 0;
  address.dlid = lid;
  address.grh.dgid = gid;
  address.grh.hop_limit = 64;
  address.port_num = 1;
  return address;
}

// Each returns what ibv_modify_qp() does: 0 or an errno value.

inline int step_to_init(ibv_qp* qp, const Connection& to) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = to.qkey;
  attr.qp_access_flags = to.access;
  if (qp->qp_type == IBV_QPT_RAW_PACKET) return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT);
  const int last = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last);
}

inline int step_to_rtr(ibv_qp* qp, const Connection& to) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = to.qpn;
  attr.rq_psn = to.receive_psn;
  attr.max_dest_rd_atomic = to.reads;
  attr.min_rnr_timer = to.rnr_timer;
  attr.ah_attr = address_of(to.gid, to.lid);
  attr.ah_attr.grh.sgid_index = to.gid_index;
  int mask = IBV_QP_STATE;
  const bool connects = qp->qp_type != IBV_QPT_UD && qp->qp_type != IBV_QPT_RAW_PACKET;
  if (connects) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (qp->qp_type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return ibv_modify_qp(qp, &attr, mask);
}

inline int step_to_rts(ibv_qp* qp, const Connection& to) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = to.send_psn;
  attr.timeout = to.timeout;
  attr.retry_cnt = to.retries;
  attr.rnr_retry = to.rnr_retries;
  attr.max_rd_atomic = to.reads;
  int mask = IBV_QP_STATE;
  if (qp->qp_type != IBV_QPT_RAW_PACKET) mask |= IBV_QP_SQ_PSN;
  if (qp->qp_type == IBV_QPT_RC)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(qp, &attr, mask);
}

/// An opened first device, or nullptr.
inline ibv_context* open_first_device() {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = list != nullptr && list[0] != nullptr ? ibv_open_device(list[0]) : nullptr;
  if (list != nullptr) ibv_free_device_list(list);
  return context;
}

}  // namespace verbatim::test
