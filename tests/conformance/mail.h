// SPDX-License-Identifier: MIT
#pragma once

// Command mailboxes as a program writes and reads them.

#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include "testing/mailboxes.h"

namespace verbatim::conformance {

/// The first device, opened with those flags (MLX5DV_CONTEXT_FLAGS_*). nullptr: errno says why.
inline ibv_context* open_with(uint32_t flags) {
  ibv_device** list = ibv_get_device_list(nullptr);
  mlx5dv_context_attr attributes{};
  attributes.flags = flags;
  ibv_context* context = mlx5dv_open_device(list[0], &attributes);
  ibv_free_device_list(list);
  return context;
}

/// The mailboxes of one command, and the ways to send it.
template <class Spec>
struct Mail : test::Mailboxes<Spec> {
  using Base = test::Mailboxes<Spec>;
  using Base::Base, Base::got, Base::sent;
  mlx5dv_devx_obj* create(ibv_context* context) {
    return mlx5dv_devx_obj_create(context, sent.data(), sent.size(), got.data(), got.size());
  }
  mlx5dv_devx_eq* create_eq(ibv_context* context) {
    return mlx5dv_devx_create_eq(context, sent.data(), sent.size(), got.data(), got.size());
  }
  int general(ibv_context* context) {
    return mlx5dv_devx_general_cmd(context, sent.data(), sent.size(), got.data(), got.size());
  }
  int query(mlx5dv_devx_obj* object) {
    return mlx5dv_devx_obj_query(object, sent.data(), sent.size(), got.data(), got.size());
  }
  int query(ibv_qp* qp) { return mlx5dv_devx_qp_query(qp, sent.data(), sent.size(), got.data(), got.size()); }
  int query(ibv_cq* cq) { return mlx5dv_devx_cq_query(cq, sent.data(), sent.size(), got.data(), got.size()); }
  int query(ibv_srq* srq) {
    return mlx5dv_devx_srq_query(srq, sent.data(), sent.size(), got.data(), got.size());
  }
  int query(ibv_wq* wq) { return mlx5dv_devx_wq_query(wq, sent.data(), sent.size(), got.data(), got.size()); }
  int query(ibv_rwq_ind_table* table) {
    return mlx5dv_devx_ind_tbl_query(table, sent.data(), sent.size(), got.data(), got.size());
  }
  int modify(mlx5dv_devx_obj* object) {
    return mlx5dv_devx_obj_modify(object, sent.data(), sent.size(), got.data(), got.size());
  }
  int modify(ibv_qp* qp) {
    return mlx5dv_devx_qp_modify(qp, sent.data(), sent.size(), got.data(), got.size());
  }
  int modify(ibv_cq* cq) {
    return mlx5dv_devx_cq_modify(cq, sent.data(), sent.size(), got.data(), got.size());
  }
  int modify(ibv_wq* wq) {
    return mlx5dv_devx_wq_modify(wq, sent.data(), sent.size(), got.data(), got.size());
  }
  int modify(ibv_rwq_ind_table* table) {
    return mlx5dv_devx_ind_tbl_modify(table, sent.data(), sent.size(), got.data(), got.size());
  }
  int modify(ibv_srq* srq) {
    return mlx5dv_devx_srq_modify(srq, sent.data(), sent.size(), got.data(), got.size());
  }
};

/// A device that was opened for commands.
class Devx : public testing::Test {
 protected:
  Devx() : context(open_with(MLX5DV_CONTEXT_FLAGS_DEVX)) {}
  ~Devx() override { EXPECT_TRUE(context == nullptr || ibv_close_device(context) == 0); }
  void SetUp() override { ASSERT_NE(context, nullptr); }
  ibv_context* context;
};

}  // namespace verbatim::conformance
