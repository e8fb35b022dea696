// SPDX-License-Identifier: MIT
// mlx5dv: properties of contexts, queue pairs, addresses and ports.
#include <algorithm>
#include <cstring>

#include "lib/mlx5/direct.h"

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

int mlx5dv_set_context_attr(ibv_context* public_context, mlx5dv_set_ctx_attr_type type, void* attribute) {
  verbs::Context* context = own(public_context);
  if (context == nullptr || type != MLX5DV_CTX_ATTR_BUF_ALLOCATORS) return EOPNOTSUPP;
  ContextState& state = ContextState::of(*context);
  const std::lock_guard guard(state.lock);
  state.allocators = *static_cast<const mlx5dv_ctx_allocators*>(attribute);
  return 0;
}

// Both physical ports are up as long as the one that programs see: a queue pair sends where it is meant to.
int mlx5dv_query_qp_lag_port(ibv_qp* qp, uint8_t* port_num, uint8_t* active_port_num) {
  verbs::Context* context = working(qp->context);
  if (context == nullptr) return errno;
  const uint8_t port = context->hca->qp_extras(QueuePair::of(qp).device).lag_port;
  if (port == 0)
    return verbs::refuse(*context, EOPNOTSUPP, "mlx5dv_query_qp_lag_port: the device's ports form no LAG",
                         qp->qp_num);
  *port_num = *active_port_num = port;
  return 0;
}

int mlx5dv_modify_qp_lag_port(ibv_qp* qp, uint8_t port_num) {
  verbs::Context* context = working(qp->context);
  if (context == nullptr) return errno;
  hw::QpExtras wanted;
  wanted.lag_port = port_num;
  return verbs::settle(*context, context->hca->change_qp(QueuePair::of(qp).device, hw::Hca::kLagPort, wanted),
                       qp->qp_num);
}

// The port spreads traffic over paths of a network. Packets of one host travel no such path, so that it is
// kept and told, and nothing more.
int mlx5dv_modify_qp_udp_sport(ibv_qp* qp, uint16_t udp_sport) {
  verbs::Context* context = working(qp->context);
  if (context == nullptr) return errno;
  hw::QpExtras wanted;
  wanted.udp_source_port = udp_sport;
  return verbs::settle(*context,
                       context->hca->change_qp(QueuePair::of(qp).device, hw::Hca::kUdpSourcePort, wanted),
                       qp->qp_num);
}

// Without an embedded switch no member is valid.
int _mlx5dv_query_port(ibv_context* public_context, uint32_t port, mlx5dv_port* info, size_t info_bytes) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return errno;
  if (port != 1)
    return verbs::refuse(*context, EINVAL, "mlx5dv_query_port: there is no port " + std::to_string(port));
  std::memset(static_cast<void*>(info), 0, info_bytes);
  return 0;
}

// A hint about congestion, of which queue pairs here carry nothing, whatever connection options they have
// (ECE).
int mlx5dv_map_ah_to_qp(ibv_ah* ah, uint32_t qp_number) {
  verbs::Context* context = working(ah->context);
  if (context == nullptr) return errno;
  // Only the first counts, whatever the next ones name.
  auto& address = *static_cast<AddressHandle*>(reinterpret_cast<verbs::AddressHandle*>(ah));
  if (address.mapped) return 0;
  if (!QueuePairTable::any_holds_number(qp_number))
    return verbs::refuse(*context, EINVAL, "mlx5dv_map_ah_to_qp: the program has no such queue pair",
                         qp_number);
  address.mapped = true;
  return 0;
}

int mlx5dv_reserved_qpn_alloc(ibv_context* public_context, uint32_t* number) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return errno;
  const auto taken = context->hca->reserve_qpn();
  if (!taken) return verbs::refuse(*context, taken.error());
  ContextState& state = ContextState::of(*context);
  const std::lock_guard guard(state.lock);
  state.reserved_qpns.push_back(*taken);
  *number = *taken;
  return 0;
}

int mlx5dv_reserved_qpn_dealloc(ibv_context* public_context, uint32_t number) {
  verbs::Context* context = own(public_context);
  if (context == nullptr) return EOPNOTSUPP;
  ContextState& state = ContextState::of(*context);
  const std::lock_guard guard(state.lock);
  if (std::erase(state.reserved_qpns, number) == 0)
    return verbs::refuse(*context, EINVAL, "mlx5dv_reserved_qpn_dealloc: the number is not reserved", number);
  context->hca->release_qpn(number);
  return 0;
}

}  // extern "C"
