// SPDX-License-Identifier: MIT
#pragma once

// What a player of XRC has beside its other objects: a domain with a shared receive queue, and a queue pair
// of either kind, connected to the other player's.

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "tests/conformance/players.h"

namespace verbatim::conformance {

inline constexpr uint64_t kXrcOperations =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_FLUSH |
    IBV_QP_EX_WITH_ATOMIC_WRITE;
inline constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
// Programs name what RC needs for either kind; what it does not have is left out.
inline constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int kToRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

inline ibv_xrcd* open_domain(ibv_context* context, int fd = -1, int flags = O_CREAT) {
  ibv_xrcd_init_attr wanted{};
  wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  wanted.fd = fd;
  wanted.oflags = flags;
  return ibv_open_xrcd(context, &wanted);
}

/// A queue of a player in a domain, of that depth.
inline ibv_srq* make_shared(Endpoint& self, ibv_xrcd* domain, uint32_t depth = 64) {
  ibv_srq_init_attr_ex wanted{};
  wanted.attr = {depth, 4, 0};
  wanted.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  wanted.srq_type = IBV_SRQT_XRC;
  wanted.pd = self.pd;
  wanted.xrcd = domain;
  wanted.cq = self.cq;
  return ibv_create_srq_ex(self.context, &wanted);
}

inline uint32_t number_of(ibv_srq* srq) {
  uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(srq, &number), 0);
  return number;
}

inline ibv_qp* make_receiver(ibv_context* context, ibv_xrcd* domain, void* qp_context = nullptr) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_context = qp_context;
  wanted.qp_type = IBV_QPT_XRC_RECV;
  wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  wanted.xrcd = domain;
  return ibv_create_qp_ex(context, &wanted);
}

inline ibv_qp* make_sender(Endpoint& self) {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = self.cq;
  wanted.qp_type = IBV_QPT_XRC_SEND;
  wanted.cap = {32, 0, 4, 0, 64};
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.send_ops_flags = kXrcOperations;
  wanted.pd = self.pd;
  return ibv_create_qp_ex(self.context, &wanted);
}

inline ibv_qp_state state_of(ibv_qp* qp) {
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(ibv_query_qp(qp, &now, IBV_QP_STATE, &made), 0);
  return now.qp_state;
}

/// RESET to RTS, towards the queue pair of that number of a contact.
inline void connect_xrc(ibv_qp* qp, uint32_t number, const Contact& contact,
                        unsigned int access = kAllRights) {
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.qp_access_flags = access;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = number;
  attr.rq_psn = attr.sq_psn = 0xfffff0;  // they wrap around soon
  attr.max_dest_rd_atomic = attr.max_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.ah_attr = test::address_of(contact.gid, contact.lid);
  attr.qp_state = IBV_QPS_INIT;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kToInit), 0);
  attr.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kToRtr), 0);
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kToRts), 0);
}

/// One request over `bytes` of the player's buffer at `offset`, for a shared receive queue; `build` begins
/// it.
template <class Build>
int post_xrc(Endpoint& self, ibv_qp* sender, uint64_t id, uint32_t queue, Build&& build, size_t bytes,
             size_t offset = 0) {
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(sender);
  ibv_wr_start(ex);
  ex->wr_id = id;
  ex->wr_flags = IBV_SEND_SIGNALED;
  build(ex);
  ibv_wr_set_xrc_srqn(ex, queue);
  if (bytes != 0)
    ibv_wr_set_sge(ex, self.mr->lkey, reinterpret_cast<uint64_t>(self.buffer.data() + offset),
                   static_cast<uint32_t>(bytes));
  return ibv_wr_complete(ex);
}

inline int receive_shared(Endpoint& self, ibv_srq* srq, size_t offset, size_t bytes, uint64_t id) {
  ibv_sge sge = self.piece(offset, bytes);
  ibv_recv_wr wr{id, nullptr, &sge, 1}, *bad = nullptr;
  return ibv_post_srq_recv(srq, &wr, &bad);
}

class XrcEnd {
 public:
  explicit XrcEnd(Endpoint& player, unsigned int access = kAllRights) : self(player), access_(access) {
    domain = open_domain(self.context);
    if (domain == nullptr) throw std::runtime_error("ibv_open_xrcd");
    srq = make_shared(self, domain);
    receiver = make_receiver(self.context, domain, this);
    sender = make_sender(self);
    if (srq == nullptr || receiver == nullptr || sender == nullptr) throw std::runtime_error("XRC objects");
    srqn = number_of(srq);
    meet();
  }
  ~XrcEnd() {
    EXPECT_EQ(ibv_destroy_qp(sender), 0);
    if (receiver != nullptr) {
      EXPECT_EQ(ibv_close_xrcd(domain), EBUSY);
      EXPECT_EQ(ibv_destroy_qp(receiver), 0);
    }
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
    EXPECT_EQ(ibv_close_xrcd(domain), 0);
  }
  XrcEnd(const XrcEnd&) = delete;

  int receive(size_t offset, size_t bytes, uint64_t id, ibv_srq* queue = nullptr) {
    return receive_shared(self, queue != nullptr ? queue : srq, offset, bytes, id);
  }
  template <class Build>
  int post(uint64_t id, uint32_t queue, Build&& build, size_t bytes, size_t offset = 0) {
    return post_xrc(self, sender, id, queue, build, bytes, offset);
  }

  struct Told {
    uint64_t sender, receiver, srqn;
  };
  Endpoint& self;
  ibv_xrcd* domain = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* receiver = nullptr;
  ibv_qp* sender = nullptr;
  uint32_t srqn = 0;
  Told peer{};

 private:
  /// The players read each other's numbers over their RC queue pairs.
  void meet() {
    constexpr size_t kTold = kBuffer - 64, kHeard = kBuffer - 128;
    const Told mine{sender->qp_num, receiver->qp_num, srqn};
    std::memcpy(&self.buffer[kTold], &mine, sizeof mine);
    self.barrier();
    EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_READ, sizeof peer, kTold), kHeard), 0);
    EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
    std::memcpy(&peer, &self.buffer[kHeard], sizeof peer);
    connect_xrc(receiver, static_cast<uint32_t>(peer.sender), self.peer, access_);
    connect_xrc(sender, static_cast<uint32_t>(peer.receiver), self.peer, access_);
    self.barrier();
  }
  const unsigned int access_;
};

}  // namespace verbatim::conformance
