// SPDX-License-Identifier: MIT
// mlx5dv: queues with options that only this device has.
#include <bit>

#include "lib/mlx5/direct.h"

namespace verbatim::mlx5 {
namespace {

constexpr uint32_t kWide = 128;  ///< bytes of a long completion entry

/// Code 0, or why the options of a completion queue are refused.
Error check(const mlx5dv_cq_init_attr& special) {
  constexpr uint64_t kKnown = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE | MLX5DV_CQ_INIT_ATTR_MASK_FLAGS |
                              MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  if ((special.comp_mask & ~kKnown) != 0) return {EINVAL, "mlx5dv_create_cq: unknown bits in comp_mask"};
  const auto format = static_cast<unsigned>(special.cqe_comp_res_format);
  if ((special.comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE) != 0 &&
      (!std::has_single_bit(format) || (format & ~kCompressedFormats) != 0))
    return {EINVAL,
            "mlx5dv_create_cq: short completions have one format: hash, checksum, or that with a stride"};
  const bool sized = (special.comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE) != 0;
  if (sized && special.cqe_size != sizeof(connectx::Cqe) && special.cqe_size != kWide)
    return {EINVAL, "mlx5dv_create_cq: completion queue entries have 64 or 128 bytes"};
  if ((special.comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_FLAGS) == 0 || special.flags == 0) return {};
  if ((special.flags & ~uint32_t{MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD}) != 0)
    return {EINVAL, "mlx5dv_create_cq: unknown flags"};
  if ((sized ? special.cqe_size : cqe_bytes_wanted()) != kWide)
    return {EINVAL, "mlx5dv_create_cq: only entries of 128 bytes are padded"};
  return {};
}

/// The same for the create_flags of a queue pair. Payloads never go into completions here, so that both flags
/// about that ask for what is so; those about loopback mean raw packet queue pairs and change nothing for
/// others. `target`: a DC target, which takes fewer; `frames`: of raw packets.
Error check_flags(uint32_t flags, bool target, bool frames) {
  constexpr uint32_t kScatter =
      MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE | MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE;
  constexpr uint32_t kLoopback =
      MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC | MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC;
  constexpr uint32_t kTunnels = MLX5DV_QP_CREATE_TUNNEL_OFFLOADS;
  constexpr uint32_t kCredits = MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE;
  constexpr uint32_t kOffered = MLX5DV_QP_CREATE_SIG_PIPELINING | MLX5DV_QP_CREATE_OOO_DP;
  if ((flags & ~(kScatter | kLoopback | kTunnels | kCredits | kOffered)) != 0)
    return {EINVAL, "mlx5dv_create_qp: unknown create_flags"};
  if ((flags & kScatter) == kScatter)
    return {EINVAL, "mlx5dv_create_qp: create_flags forbid and allow payloads in completions"};
  if ((flags & kCredits) != 0) return {EINVAL, "mlx5dv_create_qp: the device has no packet based credits"};
  if ((flags & kTunnels) != 0 && !frames)
    return {EINVAL, "mlx5dv_create_qp: only queue pairs of raw packets look into tunnels"};
  if (target && (flags & ~uint32_t{MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE}) != 0)
    return {EINVAL, "mlx5dv_create_qp: create_flags that a DC target does not take"};
  return {};
}

/// The same for what makes a queue pair one of DC.
Error check_dc(const hw::Limits& limits, const ibv_qp_init_attr_ex& attributes,
               const mlx5dv_qp_init_attr& special) {
  const mlx5dv_dc_init_attr& dc = special.dc_init_attr;
  const bool streams = (special.comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS) != 0;
  if (attributes.qp_type != IBV_QPT_DRIVER)
    return {EINVAL, "mlx5dv_create_qp: queue pairs of DC are of type IBV_QPT_DRIVER"};
  if (dc.dc_type == MLX5DV_DCTYPE_DCI) {
    if (streams && (dc.dci_streams.log_num_concurent > limits.log_max_dci_streams ||
                    dc.dci_streams.log_num_errored > limits.log_max_dci_errored_streams))
      return {EINVAL, "mlx5dv_create_qp: more streams than mlx5dv_query_device() tells"};
    return {};
  }
  constexpr uint64_t kTargetMask = MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  if (dc.dc_type != MLX5DV_DCTYPE_DCT) return {EINVAL, "mlx5dv_create_qp: no such dc_type"};
  if (attributes.comp_mask != IBV_QP_INIT_ATTR_PD || (special.comp_mask & ~kTargetMask) != 0)
    return {EINVAL, "mlx5dv_create_qp: comp_mask asks for what a DC target does not have"};
  if (attributes.srq == nullptr)
    return {EINVAL, "mlx5dv_create_qp: a DC target needs a shared receive queue"};
  return {};
}

/// The same for all options of a queue pair.
Error check(const hw::Limits& limits, const ibv_qp_init_attr_ex& attributes,
            const mlx5dv_qp_init_attr& special) {
  constexpr uint64_t kKnown = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_DC |
                              MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
  const bool dc = (special.comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DC) != 0;
  if ((special.comp_mask & ~kKnown) != 0) return {EINVAL, "mlx5dv_create_qp: unknown bits in comp_mask"};
  if ((special.comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS) != 0) {
    const bool target = dc && special.dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
    const bool frames = attributes.qp_type == IBV_QPT_RAW_PACKET;
    if (const Error refusal = check_flags(special.create_flags, target, frames); refusal.code != 0)
      return refusal;
  }
  if (dc) {
    if (const Error refusal = check_dc(limits, attributes, special); refusal.code != 0) return refusal;
  } else if (attributes.qp_type == IBV_QPT_DRIVER) {
    return {EINVAL, "mlx5dv_create_qp: a queue pair of type IBV_QPT_DRIVER needs dc_init_attr"};
  } else if ((special.comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS) != 0) {
    return {EINVAL, "mlx5dv_create_qp: only DC initiators have streams"};
  }
  return {};
}

/// MLX5DV_QP_EX_WITH_x that queue pairs of a type offer.
uint64_t operations_of(ibv_qp_type type) {
  constexpr uint64_t kReliable = MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MR_LIST |
                                 MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_RAW_WQE |
                                 MLX5DV_QP_EX_WITH_MEMCPY;
  if (type == IBV_QPT_DRIVER) return MLX5DV_QP_EX_WITH_RAW_WQE | MLX5DV_QP_EX_WITH_MEMCPY;
  return type == IBV_QPT_RC ? kReliable : static_cast<uint64_t>(MLX5DV_QP_EX_WITH_RAW_WQE);
}

/// The context if it is ours; nullptr with errno set.
verbs::Context* own_or_refuse(ibv_context* public_context) { return working(public_context); }

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
  if (cq == nullptr) return nullptr;
  const bool sized = (special->comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE) != 0;
  const bool padded = (special->comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && special->flags != 0;
  const bool compressed = (special->comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE) != 0;
  const uint32_t bytes = sized ? special->cqe_size : cqe_bytes_wanted();
  if (const int error = set_entries(CompletionQueue::of(cq), bytes, padded, compressed)) {
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
  if (special == nullptr) return ibv_create_qp_ex(public_context, attributes);
  if (const Error refusal = check(context->hca->limits(), *attributes, *special); refusal.code != 0)
    return verbs::refuse_pointer(*context, refusal);
  const uint64_t operations =
      (special->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS) != 0 ? special->send_ops_flags : 0;
  if ((operations & ~operations_of(attributes->qp_type)) != 0)
    return verbs::refuse_pointer(
        *context, EOPNOTSUPP,
        "mlx5dv_create_qp: send_ops_flags ask for operations that this type does not have");
  ibv_qp* qp = verbs::verbatim_create_special_qp(public_context, attributes, special);
  if (qp == nullptr) return nullptr;
  // A DC target gets its number on the way to RTR.
  if (QueuePair::of(qp).dc == DcRole::kTarget) qp->qp_num = 0;
  // All of them: released programs use some that they have not asked for.
  if (operations != 0) install_key_builders(QueuePair::of(qp), operations_of(attributes->qp_type));
  if ((special->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS) != 0 &&
      (special->create_flags & MLX5DV_QP_CREATE_SIG_PIPELINING) != 0) {
    const QueuePair& made = QueuePair::of(qp);
    made.hca->drain_on_signature_errors(made.device);
  }
  return qp;
}

int mlx5dv_dci_stream_id_reset(ibv_qp* qp, uint16_t stream_id) {
  verbs::Context* context = working(qp->context);
  if (context == nullptr) return errno;
  if (qp->state != IBV_QPS_RTS) return EOPNOTSUPP;
  QueuePair& initiator = QueuePair::of(qp);
  if (initiator.dc != DcRole::kInitiator)
    return verbs::refuse(*context, EINVAL, "mlx5dv_dci_stream_id_reset: only DC initiators have streams",
                         qp->qp_num);
  return verbs::settle(*context, context->hca->reset_stream(initiator.device, stream_id), qp->qp_num);
}

}  // extern "C"
