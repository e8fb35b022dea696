// SPDX-License-Identifier: MIT
// Queue pairs that spread what they receive over a table of work queues: a TIR of the device.
#include <infiniband/mlx5dv.h>

#include <new>

#include "abi/prm/domains.h"
#include "abi/prm/receive_steering.h"
#include "lib/mlx5/host_command.h"

namespace verbatim::mlx5 {
namespace {

using prm::RxHashFieldSelect;
using prm::Tirc;

constexpr size_t kToeplitzKeyBytes = 40;
constexpr uint64_t kIpv4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4;
constexpr uint64_t kIpv6 = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6;
constexpr uint64_t kTcp = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP;
constexpr uint64_t kUdp = IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;
constexpr uint64_t kSpi = IBV_RX_HASH_IPSEC_SPI;

constexpr uint64_t kInner = IBV_RX_HASH_INNER;

/// Code 0, or why the hash is refused. `tunnels`: they are looked into.
Error check(const ibv_rx_hash_conf& hash, bool tunnels) {
  if (hash.rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ)
    return {EOPNOTSUPP, "ibv_create_qp_ex: only the Toeplitz hash is supported"};
  if (hash.rx_hash_key_len != kToeplitzKeyBytes || hash.rx_hash_key == nullptr)
    return {EINVAL, "ibv_create_qp_ex: a Toeplitz key has 40 bytes"};
  const uint64_t fields = hash.rx_hash_fields_mask;
  if ((fields & ~(kIpv4 | kIpv6 | kTcp | kUdp | kSpi | kInner)) != 0)
    return {EOPNOTSUPP, "ibv_create_qp_ex: the hash is over fields that the device does not look at"};
  if ((fields & kInner) != 0 && !tunnels)
    return {EOPNOTSUPP,
            "ibv_create_qp_ex: the hash is over the packet in a tunnel, which needs "
            "MLX5DV_QP_CREATE_TUNNEL_OFFLOADS"};
  if (((fields & kIpv4) != 0 && (fields & kIpv6) != 0) ||
      ((fields & kTcp) != 0) + ((fields & kUdp) != 0) + ((fields & kSpi) != 0) > 1)
    return {EINVAL, "ibv_create_qp_ex: the hash is over fields that no packet has together"};
  return {};
}

uint32_t selected(uint64_t fields) {
  struct Selection {
    uint64_t fields;
    uint32_t bit;
  };
  constexpr Selection kSelections[] = {{IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_IPV6, 0},
                                       {IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_DST_IPV6, 1},
                                       {IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP, 2},
                                       {IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_DST_PORT_UDP, 3},
                                       {kSpi, 4}};
  uint32_t bits = 0;
  for (const Selection& one : kSelections)
    if ((fields & one.fields) != 0) bits |= 1u << one.bit;
  return bits;
}

void describe(const ibv_rx_hash_conf& hash, prm::Writer<Tirc> tir) {
  const uint64_t fields = hash.rx_hash_fields_mask;
  if (fields == 0) return;  // everything goes to the first queue
  tir.set(Tirc::rx_hash_fn, prm::RxHash::kToeplitz);
  for (size_t i = 0; i < kToeplitzKeyBytes / 4; i++) {
    const uint8_t* b = hash.rx_hash_key + 4 * i;
    tir.set(Tirc::rx_hash_toeplitz_key, i,
            uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3]);
  }
  const auto selector =
      tir[(fields & kInner) != 0 ? Tirc::rx_hash_field_selector_inner : Tirc::rx_hash_field_selector_outer];
  selector.set(RxHashFieldSelect::l3_prot_type, (fields & kIpv6) != 0);
  selector.set(RxHashFieldSelect::l4_prot_type, (fields & kUdp) != 0);
  selector.set(RxHashFieldSelect::selected_fields, selected(fields));
}

/// The context's transport domain, which goes when the device is closed.
int take_transport_domain(verbs::Context& context, uint32_t& domain) {
  ContextState& state = ContextState::of(context);
  const std::lock_guard guard(state.lock);
  int error = 0;
  if (state.transport_domain == 0) {
    HostCommand<prm::AllocTransportDomain> command;
    error = command.send(context);
    state.transport_domain = command.out()[prm::AllocTransportDomainOut::transport_domain];
  }
  domain = state.transport_domain;
  return error;
}

}  // namespace

bool looks_into_tunnels(const void* special) {
  const auto* options = static_cast<const mlx5dv_qp_init_attr*>(special);
  return options != nullptr && (options->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS) != 0 &&
         (options->create_flags & MLX5DV_QP_CREATE_TUNNEL_OFFLOADS) != 0;
}

verbs::QueuePair* create_spreading_qp(verbs::Context& context, const ibv_qp_init_attr_ex& attributes,
                                      const void* special) {
  const bool tunnels = looks_into_tunnels(special);
  if (const Error refusal = check(attributes.rx_hash_conf, tunnels); refusal.code != 0)
    return verbs::refuse_pointer(context, refusal);
  auto qp = std::unique_ptr<QueuePair>(new (std::nothrow) QueuePair);
  uint32_t domain = 0;
  int error = qp == nullptr ? ENOMEM : take_transport_domain(context, domain);
  HostCommand<prm::CreateTir> command;
  const auto tir = command.in()[prm::CreateTirIn::ctx];
  tir.set(Tirc::disp_type, prm::TirDispatch::kIndirect);
  tir.set(Tirc::indirect_table, static_cast<uint32_t>(attributes.rwq_ind_tbl->ind_tbl_num));
  tir.set(Tirc::transport_domain, domain);
  tir.set(Tirc::tunneled_offload_en, tunnels);
  describe(attributes.rx_hash_conf, tir);
  if (error == 0) error = command.send(context);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  qp->hca = context.hca;
  qp->spreader = command.out()[prm::CreateTirOut::tirn];
  return qp.release();
}

int destroy_spreading_qp(QueuePair& qp) {
  HostCommand<prm::DestroyTir> command;
  command.in().set(prm::DestroyTirIn::tirn, qp.spreader);
  return command.send(*qp.context);
}

}  // namespace verbatim::mlx5
