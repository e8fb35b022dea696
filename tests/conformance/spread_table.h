// SPDX-License-Identifier: MIT
#pragma once

// Work queues, each with a completion queue of its own, that a queue pair spreads frames over.

#include <infiniband/mlx5dv.h>

#include <array>

#include "tests/conformance/frames.h"

namespace verbatim::conformance {

inline constexpr size_t kRoom = 1024;
inline constexpr size_t kQueues = 4, kReceives = 16;

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
    return qp = spreading_qp(self, table, fields, tunnels ? MLX5DV_QP_CREATE_TUNNEL_OFFLOADS : 0);
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
  ibv_rwq_ind_table* table = nullptr;
  ibv_qp* qp = nullptr;
};

}  // namespace verbatim::conformance
