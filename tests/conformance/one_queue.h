// SPDX-License-Identifier: MIT
#pragma once

// One work queue with a completion queue of its own, and a queue pair that hands it all frames for an
// address.

#include <infiniband/mlx5dv.h>

#include <memory>

#include "tests/conformance/frames.h"

namespace verbatim::conformance {

struct OneQueue {
  struct Options {
    uint32_t flags = 0;
    uint32_t max_wr = 16;
    const mlx5dv_striding_rq_init_attr* strides = nullptr;
    ibv_comp_channel* channel = nullptr;
    uint64_t fields = 0;  ///< of the hash
  };
  OneQueue(Endpoint& endpoint, const Mac& to, const Options& options) : self(endpoint) {
    cq = ibv_create_cq(self.context, 2048, nullptr, options.channel, 0);
    ibv_wq_init_attr init{};
    init.wq_type = IBV_WQT_RQ;
    init.max_wr = options.max_wr;
    init.max_sge = 1;
    init.pd = self.pd;
    init.cq = cq;
    init.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
    init.create_flags = options.flags;
    mlx5dv_wq_init_attr special{};
    if (options.strides != nullptr) {
      special.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
      special.striding_rq_attrs = *options.strides;
    }
    wq = mlx5dv_create_wq(self.context, &init, &special);
    EXPECT_NE(wq, nullptr);
    EXPECT_EQ(move(IBV_WQS_RDY), 0);
    ibv_rwq_ind_table_init_attr only{0, &wq, 0};
    table = ibv_create_rwq_ind_table(self.context, &only);
    EXPECT_NE(table, nullptr);
    qp = spreading_qp(self, table, options.fields);
    EXPECT_NE(qp, nullptr);
    EXPECT_EQ(rule->to(to).put_in_force(qp), 0);
  }
  ~OneQueue() {
    rule.reset();
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_rwq_ind_table(table), 0);
    EXPECT_EQ(ibv_destroy_wq(wq), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
  }
  OneQueue(const OneQueue&) = delete;
  OneQueue& operator=(const OneQueue&) = delete;

  int move(ibv_wq_state to) {
    ibv_wq_attr attr{};
    attr.attr_mask = IBV_WQ_ATTR_STATE;
    attr.wq_state = to;
    return ibv_modify_wq(wq, &attr);
  }
  /// Into the endpoint's buffer.
  int post(uint64_t id, size_t offset, size_t bytes) {
    ibv_sge piece = self.piece(offset, bytes);
    ibv_recv_wr wr{id, nullptr, &piece, 1}, *bad = nullptr;
    return ibv_post_wq_recv(wq, &wr, &bad);
  }
  /// The next completion within five seconds.
  ibv_wc wait() {
    ibv_wc wc{};
    for (int64_t tries = 0; ibv_poll_cq(cq, 1, &wc) == 0; tries++)
      if (tries == 50'000'000) {
        ADD_FAILURE() << "no completion";
        break;
      }
    return wc;
  }
  bool quiet() {
    ibv_wc wc{};
    return ibv_poll_cq(cq, 1, &wc) == 0;
  }

  Endpoint& self;
  ibv_cq* cq = nullptr;
  ibv_wq* wq = nullptr;
  ibv_rwq_ind_table* table = nullptr;
  ibv_qp* qp = nullptr;
  std::unique_ptr<Rule> rule = std::make_unique<Rule>();
};

}  // namespace verbatim::conformance
