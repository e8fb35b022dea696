// SPDX-License-Identifier: MIT
// mlx5dv: the device behind verbs objects.
#include <ctime>

#include "lib/mlx5/mlx5.h"
#include "lib/mlx5/public.h"

namespace verbatim::mlx5 {
namespace {

/// The context if it is one of this library's that works; else nullptr.
verbs::Context* own(ibv_context* public_context) {
  verbs::Context* context = verbs::Context::of(public_context);
  return context->provider == &kProvider && !context->abandoned ? context : nullptr;
}

void show(ibv_qp* in, mlx5dv_qp& out) {
  QueuePair& qp = QueuePair::of(in);
  out.dbrec = qp.doorbell;
  out.sq = {qp.send_ring, qp.blocks, kBlock};
  out.rq = {qp.receive_ring, qp.receive_entries, qp.receive_stride};
  // No BlueFlame: the page takes doorbells only.
  out.bf = {ContextState::of(*qp.context).doorbell_page.bytes, 0};
  out.comp_mask = 0;
}

void show(ibv_cq* in, mlx5dv_cq& out) {
  CompletionQueue& cq = CompletionQueue::of(in);
  out.buf = cq.ring.load()->base;
  out.dbrec = cq.doorbell;
  out.cqe_cnt = cq.entries();
  out.cqe_size = sizeof(connectx::Cqe);
  out.cq_uar = ContextState::of(*cq.context).doorbell_page.bytes;
  out.cqn = cq.device->number;
  out.comp_mask = 0;
}

void show(ibv_srq* in, mlx5dv_srq& out) {
  SharedReceiveQueue& srq = SharedReceiveQueue::of(in);
  out.buf = srq.ring;
  out.dbrec = srq.doorbell;
  out.stride = srq.stride;
  out.head = srq.head;
  out.tail = srq.tail;
  if ((out.comp_mask & MLX5DV_SRQ_MASK_SRQN) != 0) out.srqn = srq.device->number;
  out.comp_mask &= MLX5DV_SRQ_MASK_SRQN;
}

void show(ibv_ah* in, mlx5dv_ah& out) {
  auto* ah = static_cast<AddressHandle*>(reinterpret_cast<verbs::AddressHandle*>(in));
  out.av = reinterpret_cast<mlx5_wqe_av*>(&ah->vector);
  out.comp_mask = 0;
}

void show(ibv_pd* in, mlx5dv_pd& out) {
  out.pdn = verbs::ProtectionDomain::of(in)->device->number;
  out.comp_mask = 0;
}

/// The contexts of all objects that `types` selects must be ours, before anything is written.
bool all_own(const mlx5dv_obj& obj, uint64_t types) {
  if ((types & MLX5DV_OBJ_QP) != 0 && own(obj.qp.in->context) == nullptr) return false;
  if ((types & MLX5DV_OBJ_CQ) != 0 && own(obj.cq.in->context) == nullptr) return false;
  if ((types & MLX5DV_OBJ_SRQ) != 0 && own(obj.srq.in->context) == nullptr) return false;
  if ((types & MLX5DV_OBJ_AH) != 0 && own(obj.ah.in->context) == nullptr) return false;
  return (types & MLX5DV_OBJ_PD) == 0 || own(obj.pd.in->context) != nullptr;
}

}  // namespace
}  // namespace verbatim::mlx5

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
  // DEVX commands are not offered yet.
  if (attributes != nullptr && (attributes->flags & MLX5DV_CONTEXT_FLAGS_DEVX) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return ibv_open_device(device);
}

int mlx5dv_query_device(ibv_context* public_context, mlx5dv_context* attributes) {
  constexpr uint64_t kMaxClockAgeNs = 1'000'000'000;
  if (own(public_context) == nullptr) return EOPNOTSUPP;
  const uint64_t wanted = attributes->comp_mask;
  attributes->version = 0;
  attributes->flags = MLX5DV_CONTEXT_FLAGS_CQE_V1;
  attributes->comp_mask = wanted & MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE;
  if (attributes->comp_mask != 0) attributes->max_clock_info_update_nsec = kMaxClockAgeNs;
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

int mlx5dv_init_obj(mlx5dv_obj* obj, uint64_t types) {
  constexpr uint64_t kShown = MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ | MLX5DV_OBJ_AH | MLX5DV_OBJ_PD;
  if ((types & ~kShown) != 0 || !all_own(*obj, types)) return EOPNOTSUPP;
  if ((types & MLX5DV_OBJ_QP) != 0) show(obj->qp.in, *obj->qp.out);
  if ((types & MLX5DV_OBJ_CQ) != 0) show(obj->cq.in, *obj->cq.out);
  if ((types & MLX5DV_OBJ_SRQ) != 0) show(obj->srq.in, *obj->srq.out);
  if ((types & MLX5DV_OBJ_AH) != 0) show(obj->ah.in, *obj->ah.out);
  if ((types & MLX5DV_OBJ_PD) != 0) show(obj->pd.in, *obj->pd.out);
  return 0;
}

/// As it was before cq_uar: that member belongs to the caller.
__attribute__((visibility("hidden"))) int mlx5dv_init_obj_1_0(mlx5dv_obj* obj, uint64_t types) {
  if ((types & MLX5DV_OBJ_CQ) == 0) return mlx5dv_init_obj(obj, types);
  void* kept = obj->cq.out->cq_uar;
  const int error = mlx5dv_init_obj(obj, types);
  obj->cq.out->cq_uar = kept;
  return error;
}

ibv_cq_ex* mlx5dv_create_cq(ibv_context* public_context, ibv_cq_init_attr_ex* attributes,
                            mlx5dv_cq_init_attr* special) {
  verbs::Context* context = own(public_context);
  if (context == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  const bool plain_size =
      special->comp_mask == MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE && special->cqe_size == sizeof(connectx::Cqe);
  if (special->comp_mask != 0 && !plain_size)
    return verbs::refuse_pointer(*context, EOPNOTSUPP,
                                 "mlx5dv_create_cq: only queues of 64-byte entries are offered");
  return ibv_create_cq_ex(public_context, attributes);
}

ibv_qp* mlx5dv_create_qp(ibv_context* public_context, ibv_qp_init_attr_ex* attributes,
                         mlx5dv_qp_init_attr* special) {
  verbs::Context* context = own(public_context);
  if (context == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  // Payloads never go into completions here, so that this flag asks for what is so.
  const bool plain = special == nullptr || special->comp_mask == 0 ||
                     (special->comp_mask == MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS &&
                      (special->create_flags & ~MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE) == 0);
  if (!plain)
    return verbs::refuse_pointer(*context, EOPNOTSUPP,
                                 "mlx5dv_create_qp: special attributes are not offered");
  return ibv_create_qp_ex(public_context, attributes);
}

mlx5dv_qp_ex* mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_ex* /*qp*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // extern "C"
