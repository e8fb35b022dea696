// SPDX-License-Identifier: MIT
// mlx5dv: queues with options that only this device has.
#include "lib/mlx5/direct.h"

namespace verbatim::mlx5 {
namespace {

constexpr uint32_t kWide = 128;  ///< bytes of a long completion entry

/// Code 0, or why the options of a completion queue are refused.
Error check(const mlx5dv_cq_init_attr& special) {
  constexpr uint64_t kKnown = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE | MLX5DV_CQ_INIT_ATTR_MASK_FLAGS |
                              MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  if ((special.comp_mask & ~kKnown) != 0) return {EINVAL, "mlx5dv_create_cq: unknown bits in comp_mask"};
  if ((special.comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE) != 0)
    return {EOPNOTSUPP, "mlx5dv_create_cq: the device compresses no completions"};
  const bool sized = (special.comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE) != 0;
  if (sized && special.cqe_size != sizeof(connectx::Cqe) && special.cqe_size != kWide)
    return {EINVAL, "mlx5dv_create_cq: completion queue entries have 64 or 128 bytes"};
  if ((special.comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_FLAGS) == 0 || special.flags == 0) return {};
  if ((special.flags & ~uint32_t{MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD}) != 0)
    return {EINVAL, "mlx5dv_create_cq: unknown flags"};
  return {EOPNOTSUPP, "mlx5dv_create_cq: the device pads no completions"};
}

/// Code 0, or why the options of a queue pair are refused. Payloads never go into completions here, so that
/// both flags about that ask for what is so.
Error check(const mlx5dv_qp_init_attr& special) {
  constexpr uint64_t kKnown = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_DC |
                              MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
  constexpr uint32_t kScatter =
      MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE | MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE;
  constexpr uint32_t kRaw = MLX5DV_QP_CREATE_TUNNEL_OFFLOADS | MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC |
                            MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC;
  constexpr uint32_t kLacking = MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE | MLX5DV_QP_CREATE_SIG_PIPELINING;
  if ((special.comp_mask & ~kKnown) != 0) return {EINVAL, "mlx5dv_create_qp: unknown bits in comp_mask"};
  if ((special.comp_mask & (MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS)) != 0)
    return {EOPNOTSUPP, "mlx5dv_create_qp: the device has no dynamically connected queue pairs"};
  if ((special.comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS) == 0) return {};
  const uint32_t flags = special.create_flags;
  if ((flags & ~(kScatter | kRaw | kLacking | MLX5DV_QP_CREATE_OOO_DP)) != 0)
    return {EINVAL, "mlx5dv_create_qp: unknown create_flags"};
  if ((flags & kScatter) == kScatter)
    return {EINVAL, "mlx5dv_create_qp: create_flags forbid and allow payloads in completions"};
  if ((flags & kRaw) != 0)
    return {EOPNOTSUPP, "mlx5dv_create_qp: create_flags ask for what only raw packet queue pairs have"};
  if ((flags & kLacking) != 0)
    return {EOPNOTSUPP, "mlx5dv_create_qp: the device has no packet based credits or signature pipelining"};
  return {};
}

/// MLX5DV_QP_EX_WITH_x that queue pairs of a type offer.
uint64_t operations_of(ibv_qp_type type) {
  constexpr uint64_t kReliable = MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MR_LIST |
                                 MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_RAW_WQE |
                                 MLX5DV_QP_EX_WITH_MEMCPY;
  return type == IBV_QPT_RC ? kReliable : static_cast<uint64_t>(MLX5DV_QP_EX_WITH_RAW_WQE);
}

/// The context if it is ours; nullptr with errno set.
verbs::Context* own_or_refuse(ibv_context* public_context) {
  verbs::Context* context = own(public_context);
  if (context == nullptr) errno = EOPNOTSUPP;
  return context;
}

}  // namespace
}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

ibv_cq_ex* mlx5dv_create_cq(ibv_context* public_context, ibv_cq_init_attr_ex* attributes,
                            mlx5dv_cq_init_attr* special) {
  verbs::Context* context = own_or_refuse(public_context);
  if (context == nullptr) return nullptr;
  if (special == nullptr) return ibv_create_cq_ex(public_context, attributes);
  if (const Error refusal = check(*special); refusal.code != 0)
    return verbs::refuse_pointer(*context, refusal);
  ibv_cq_ex* cq = ibv_create_cq_ex(public_context, attributes);
  const bool wide =
      (special->comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE) != 0 && special->cqe_size == kWide;
  if (cq == nullptr || !wide) return cq;
  if (const int error = widen_cq(CompletionQueue::of(cq))) {
    ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
    errno = error;
    return nullptr;
  }
  return cq;
}

ibv_qp* mlx5dv_create_qp(ibv_context* public_context, ibv_qp_init_attr_ex* attributes,
                         mlx5dv_qp_init_attr* special) {
  verbs::Context* context = own_or_refuse(public_context);
  if (context == nullptr) return nullptr;
  uint64_t operations = 0;
  if (special != nullptr) {
    if (const Error refusal = check(*special); refusal.code != 0)
      return verbs::refuse_pointer(*context, refusal);
    if ((special->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS) != 0)
      operations = special->send_ops_flags;
  }
  if ((operations & ~operations_of(attributes->qp_type)) != 0)
    return verbs::refuse_pointer(
        *context, EOPNOTSUPP,
        "mlx5dv_create_qp: send_ops_flags ask for operations that this type does not have");
  ibv_qp* qp = ibv_create_qp_ex(public_context, attributes);
  // All of them: released programs use some that they have not asked for.
  if (qp != nullptr && operations != 0)
    install_key_builders(QueuePair::of(qp), operations_of(attributes->qp_type));
  return qp;
}

}  // extern "C"
