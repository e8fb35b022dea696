// SPDX-License-Identifier: MIT
#pragma once

// Work queues, each with a completion queue of its own, that a queue pair spreads frames over.

#include <infiniband/mlx5dv.h>

#include <array>

#include "tests/conformance/frames.h"

namespace verbatim::conformance {

inline constexpr size_t kRoom = 1024;
inline constexpr size_t kQueues = 4, kReceives = 16;

/// The key by which receive side scaling is verified everywhere.
inline constexpr std::array<uint8_t, 40> kKey{0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                              0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                              0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                              0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

/// Each queue has a part of the endpoint's buffer of its own.
struct SpreadTable {
  static size_t place(size_t queue, uint64_t receive) { return (queue * kReceives + receive) * kRoom; }

  explicit SpreadTable(Endpoint& endpoint, uint32_t flags = 0) : self(endpoint) {
    for (size_t i = 0; i < kQueues; i++) {
      cqs[i] = ibv_create_cq(self.context, 64, nullptr, nullptr, 0);
      ibv_wq_init_attr init{};
      init.wq_type = IBV_WQT_RQ;
      init.max_wr = kReceives;
      init.max_sge = 1;
      init.pd = self.pd;
      init.cq = cqs[i];
      init.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
      init.create_flags = flags;
      queues[i] = ibv_create_wq(self.context, &init);
      EXPECT_NE(queues[i], nullptr);
      EXPECT_EQ(move(i, IBV_WQS_RDY), 0);
      for (uint64_t r = 0; r < kReceives; r++) EXPECT_EQ(post(i, r, kRoom), 0);
    }
    ibv_rwq_ind_table_init_attr init{2, queues.data(), 0};
    table = ibv_create_rwq_ind_table(self.context, &init);
    EXPECT_NE(table, nullptr);
  }
  ~SpreadTable() {
    if (qp != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    EXPECT_EQ(ibv_destroy_rwq_ind_table(table), 0);
    for (ibv_wq* queue : queues) EXPECT_EQ(ibv_destroy_wq(queue), 0);
    for (ibv_cq* cq : cqs) EXPECT_EQ(ibv_destroy_cq(cq), 0);
  }
  SpreadTable(const SpreadTable&) = delete;
  SpreadTable& operator=(const SpreadTable&) = delete;

  ibv_qp* spread(uint64_t fields, bool tunnels = false) {
    key = kKey;
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_RAW_PACKET;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    init.pd = self.pd;
    init.rwq_ind_tbl = table;
    init.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, static_cast<uint8_t>(key.size()), key.data(), fields};
    mlx5dv_qp_init_attr special{};
    special.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    special.create_flags = tunnels ? MLX5DV_QP_CREATE_TUNNEL_OFFLOADS : 0;
    return qp = mlx5dv_create_qp(self.context, &init, &special);
  }
  int move(size_t queue, ibv_wq_state to) {
    ibv_wq_attr attr{};
    attr.attr_mask = IBV_WQ_ATTR_STATE;
    attr.wq_state = to;
    return ibv_modify_wq(queues[queue], &attr);
  }
  int post(size_t queue, uint64_t id, size_t bytes) {
    ibv_sge piece = self.piece(place(queue, id), bytes);
    ibv_recv_wr wr{id, nullptr, &piece, 1}, *bad = nullptr;
    return ibv_post_wq_recv(queues[queue], &wr, &bad);
  }
  /// The next completion of a queue within five seconds.
  ibv_wc wait(size_t queue) {
    ibv_wc wc{};
    for (int64_t tries = 0; ibv_poll_cq(cqs[queue], 1, &wc) == 0; tries++)
      if (tries == 50'000'000) {
        ADD_FAILURE() << "no completion in queue " << queue;
        break;
      }
    return wc;
  }
  bool quiet() {
    ibv_wc wc{};
    for (ibv_cq* cq : cqs)
      if (ibv_poll_cq(cq, 1, &wc) != 0) return false;
    return true;
  }

  Endpoint& self;
  std::array<ibv_cq*, kQueues> cqs{};
  std::array<ibv_wq*, kQueues> queues{};
  std::array<uint8_t, 40> key{};
  ibv_rwq_ind_table* table = nullptr;
  ibv_qp* qp = nullptr;
};

}  // namespace verbatim::conformance
