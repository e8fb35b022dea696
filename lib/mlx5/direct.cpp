// SPDX-License-Identifier: MIT
// mlx5dv: the device behind verbs objects.
#include <fcntl.h>

#include <ctime>

#include "device/connectx/prm/object_limits.h"
#include "lib/mlx5/direct.h"
#include "lib/mlx5/protection.h"
#include "lib/mlx5/vfio.h"

namespace verbatim::mlx5 {
namespace {

/// 0, or why attributes of a context are refused. Descriptors let a program in where the kernel would not;
/// nothing is closed here.
int check(const mlx5dv_context_attr& wanted) {
  constexpr uint32_t kFlags = MLX5DV_CONTEXT_FLAGS_DEVX;
  constexpr uint64_t kMask = MLX5DV_CONTEXT_ATTR_MASK_FD_ARRAY;
  if ((wanted.flags & ~kFlags) != 0 || (wanted.comp_mask & ~kMask) != 0) return EINVAL;
  if (wanted.comp_mask == 0) return 0;
  if (wanted.fds == nullptr || (wanted.fds->arr == nullptr && wanted.fds->count != 0)) return EINVAL;
  for (uint32_t i = 0; i < wanted.fds->count; i++)
    if (::fcntl(wanted.fds->arr[i], F_GETFD) < 0) return EBADF;
  return 0;
}

}  // namespace
}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

namespace {

void tell_dc(const hw::Limits& limits, uint64_t wanted, mlx5dv_context& attributes) {
  if ((wanted & MLX5DV_CONTEXT_MASK_DC_ODP_CAPS) != 0)
    attributes.dc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                             IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
  if ((wanted & MLX5DV_CONTEXT_MASK_DCI_STREAMS) != 0)
    attributes.dci_streams_caps = {static_cast<uint8_t>(limits.log_max_dci_streams),
                                   static_cast<uint8_t>(limits.log_max_dci_errored_streams)};
  if ((wanted & MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM) != 0) {
    attributes.max_dc_rd_atom = static_cast<uint64_t>(limits.max_qp_rd_atomic);
    attributes.max_dc_init_rd_atom = static_cast<uint64_t>(limits.max_qp_init_rd_atomic);
  }
}

}  // namespace

extern "C" {

bool mlx5dv_is_supported(ibv_device* device) {
  const auto& own = *reinterpret_cast<verbs::Device*>(device);
  return own.entry.provider == kProvider.name && !is_taken_over(own);
}

ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attributes) {
  if (!mlx5dv_is_supported(device)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (const int error = attributes == nullptr ? 0 : check(*attributes)) {
    errno = error;
    return nullptr;
  }
  return ibv_open_device(device);
}

int mlx5dv_query_device(ibv_context* public_context, mlx5dv_context* attributes) {
  constexpr uint64_t kMaxClockAgeNs = 1'000'000'000;
  constexpr uint32_t kTunnels = MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_VXLAN |
                                MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GRE |
                                MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GENEVE;
  // What the device lacks is said by zeros: software parsing, registers of their own. Left out is what a mask
  // bit itself would promise: a mapped clock, a LAG, a metadata register.
  constexpr uint64_t kAnswered = MLX5DV_CONTEXT_MASK_CQE_COMPRESION | MLX5DV_CONTEXT_MASK_SWP |
                                 MLX5DV_CONTEXT_MASK_STRIDING_RQ | MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS |
                                 MLX5DV_CONTEXT_MASK_DYN_BFREGS | MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE |
                                 MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS | MLX5DV_CONTEXT_MASK_DC_ODP_CAPS |
                                 MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD | MLX5DV_CONTEXT_MASK_DCI_STREAMS |
                                 MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH | MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD |
                                 MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM | MLX5DV_CONTEXT_MASK_OOO_RECV_WRS;
  if (own(public_context) == nullptr) return EOPNOTSUPP;
  const uint64_t wanted = attributes->comp_mask;
  const bool frames = own(public_context)->hca->limits().max_frame_bytes != 0;
  const auto clear = [wanted](uint64_t bit, auto& member) {
    if ((wanted & bit) != 0) member = {};
  };
  attributes->version = 0;
  attributes->flags = MLX5DV_CONTEXT_FLAGS_CQE_V1 | MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP |
                      MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD | MLX5DV_CONTEXT_FLAGS_REAL_TIME_TS;
  attributes->comp_mask = wanted & kAnswered;
  // Queue pairs may be allowed to use receive requests out of order; those here do not make use of it.
  if ((wanted & MLX5DV_CONTEXT_MASK_OOO_RECV_WRS) != 0) {
    const uint32_t most = own(public_context)->hca->limits().max_qp_wr;
    attributes->ooo_recv_wrs_caps = {};
    attributes->ooo_recv_wrs_caps.max_rc = most;
    attributes->ooo_recv_wrs_caps.max_dct = most;
    attributes->ooo_recv_wrs_caps.max_uc = most;
    attributes->ooo_recv_wrs_caps.max_ud = most;
  }
  const uint32_t lag_ports = own(public_context)->hca->limits().lag_ports;
  if ((wanted & MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS) != 0 && lag_ports != 0) {
    attributes->num_lag_ports = static_cast<uint8_t>(lag_ports);
    attributes->comp_mask |= MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS;
  }
  if ((wanted & MLX5DV_CONTEXT_MASK_CQE_COMPRESION) != 0)
    attributes->cqe_comp_caps = {connectx::kSessionMax, kCompressedFormats};
  clear(MLX5DV_CONTEXT_MASK_SWP, attributes->sw_parsing_caps);
  if ((wanted & MLX5DV_CONTEXT_MASK_STRIDING_RQ) != 0)
    attributes->striding_rq_caps = {prm::kLogStrideBytesMin, prm::kLogStrideBytesMax, prm::kLogStridesMin,
                                    prm::kLogStridesMax, frames ? 1u << IBV_QPT_RAW_PACKET : 0};
  if ((wanted & MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS) != 0)
    attributes->tunnel_offloads_caps = frames ? kTunnels : 0;
  clear(MLX5DV_CONTEXT_MASK_DYN_BFREGS, attributes->max_dynamic_bfregs);
  clear(MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS, attributes->flow_action_flags);
  if ((wanted & MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS) != 0 && frames)
    attributes->flow_action_flags = MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM |
                                    MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_SPI_STEERING |
                                    MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_TX_IV_IS_ESN;
  tell_dc(own(public_context)->hca->limits(), wanted, *attributes);
  if ((wanted & MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH) != 0)
    attributes->max_wr_memcpy_length = size_t{1} << connectx::kLogCopyBytesMax;
  if ((wanted & MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD) != 0)
    attributes->sig_caps = signature_caps(*own(public_context));
  if ((wanted & MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD) != 0)
    attributes->crypto_caps = crypto_caps(*own(public_context));
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

}  // extern "C"
