// SPDX-License-Identifier: MIT
// mlx5dv: the device behind verbs objects.
#include <ctime>

#include "lib/mlx5/direct.h"

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

bool mlx5dv_is_supported(ibv_device* device) {
  return reinterpret_cast<verbs::Device*>(device)->entry.provider == kProvider.name;
}

ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attributes) {
  constexpr uint32_t kFlags = MLX5DV_CONTEXT_FLAGS_DEVX;
  if (!mlx5dv_is_supported(device)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (attributes != nullptr && ((attributes->flags & ~kFlags) != 0 || attributes->comp_mask != 0)) {
    errno = EINVAL;
    return nullptr;
  }
  ibv_context* context = ibv_open_device(device);
  if (context != nullptr && attributes != nullptr)
    ContextState::of(*own(context)).takes_commands = (attributes->flags & MLX5DV_CONTEXT_FLAGS_DEVX) != 0;
  return context;
}

int mlx5dv_query_device(ibv_context* public_context, mlx5dv_context* attributes) {
  constexpr uint64_t kMaxClockAgeNs = 1'000'000'000;
  // What the device lacks is said by zeros: compression, software parsing, striding, tunnels, registers of
  // their own, flow actions, DC, signatures, streams, copies, cryptography. Left out is what a mask bit
  // itself would promise: a mapped clock, a LAG, a metadata register, receive requests out of order.
  constexpr uint64_t kAnswered = MLX5DV_CONTEXT_MASK_CQE_COMPRESION | MLX5DV_CONTEXT_MASK_SWP |
                                 MLX5DV_CONTEXT_MASK_STRIDING_RQ | MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS |
                                 MLX5DV_CONTEXT_MASK_DYN_BFREGS | MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE |
                                 MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS | MLX5DV_CONTEXT_MASK_DC_ODP_CAPS |
                                 MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD | MLX5DV_CONTEXT_MASK_DCI_STREAMS |
                                 MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH | MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD |
                                 MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM;
  if (own(public_context) == nullptr) return EOPNOTSUPP;
  const uint64_t wanted = attributes->comp_mask;
  const auto clear = [wanted](uint64_t bit, auto& member) {
    if ((wanted & bit) != 0) member = {};
  };
  attributes->version = 0;
  attributes->flags = MLX5DV_CONTEXT_FLAGS_CQE_V1;
  attributes->comp_mask = wanted & kAnswered;
  clear(MLX5DV_CONTEXT_MASK_CQE_COMPRESION, attributes->cqe_comp_caps);
  clear(MLX5DV_CONTEXT_MASK_SWP, attributes->sw_parsing_caps);
  clear(MLX5DV_CONTEXT_MASK_STRIDING_RQ, attributes->striding_rq_caps);
  clear(MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS, attributes->tunnel_offloads_caps);
  clear(MLX5DV_CONTEXT_MASK_DYN_BFREGS, attributes->max_dynamic_bfregs);
  clear(MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS, attributes->flow_action_flags);
  clear(MLX5DV_CONTEXT_MASK_DC_ODP_CAPS, attributes->dc_odp_caps);
  clear(MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD, attributes->sig_caps);
  clear(MLX5DV_CONTEXT_MASK_DCI_STREAMS, attributes->dci_streams_caps);
  clear(MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH, attributes->max_wr_memcpy_length);
  clear(MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD, attributes->crypto_caps);
  clear(MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM, attributes->max_dc_rd_atom);
  clear(MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM, attributes->max_dc_init_rd_atom);
  if ((wanted & MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE) != 0)
    attributes->max_clock_info_update_nsec = kMaxClockAgeNs;
  return 0;
}

int mlx5dv_get_clock_info(ibv_context* public_context, mlx5dv_clock_info* info) {
  constexpr uint32_t kShift = 20;
  verbs::Context* context = own(public_context);
  if (context == nullptr) return EOPNOTSUPP;
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  info->last_cycles = context->hca->hardware_clock();
  info->nsec = static_cast<uint64_t>(wall.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(wall.tv_nsec);
  info->frac = 0;
  info->mult = static_cast<uint32_t>((uint64_t{1'000'000} << kShift) / context->hca->limits().timestamp_khz);
  info->shift = kShift;
  info->mask = UINT64_MAX >> 1;
  return 0;
}

mlx5dv_qp_ex* mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_ex* /*qp*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // extern "C"
