// SPDX-License-Identifier: MIT
#pragma once

// Command mailboxes as a program writes and reads them.

#include <infiniband/mlx5dv.h>

#include <array>
#include <cstdint>
#include <vector>

#include "abi/prm/general.h"
#include "device/connectx/prm/view.h"

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

/// The mailboxes of one command.
template <class Spec>
struct Mail {
  using In = typename Spec::In;
  using Out = typename Spec::Out;
  std::array<uint8_t, In::kBits / 8> sent{};
  std::array<uint8_t, Out::kBits / 8> got{};
  prm::Writer<In> in{sent};
  prm::View<Out> out{got};

  Mail() { in.set(In::opcode, Spec::kOpcode); }
  Mail(const Mail& other) : sent(other.sent), got(other.got) {}
  Mail& operator=(const Mail&) = delete;
  uint32_t status() const { return got[0]; }
  uint32_t syndrome() const { return prm::View<prm::MboxOut>(got)[prm::MboxOut::syndrome]; }
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
  int modify(mlx5dv_devx_obj* object) {
    return mlx5dv_devx_obj_modify(object, sent.data(), sent.size(), got.data(), got.size());
  }
  int modify(ibv_qp* qp) {
    return mlx5dv_devx_qp_modify(qp, sent.data(), sent.size(), got.data(), got.size());
  }
  int modify(ibv_cq* cq) {
    return mlx5dv_devx_cq_modify(cq, sent.data(), sent.size(), got.data(), got.size());
  }
  int modify(ibv_srq* srq) {
    return mlx5dv_devx_srq_modify(srq, sent.data(), sent.size(), got.data(), got.size());
  }
};

}  // namespace verbatim::conformance
