// SPDX-License-Identifier: MIT
// mlx5dv_init_obj: the queues, doorbells and numbers behind verbs objects.
#include "lib/ibverbs/device_memory.h"
#include "lib/mlx5/direct.h"
#include "lib/mlx5/raw_doorbells.h"

namespace verbatim::mlx5 {
namespace {

constexpr size_t kDoorbellOffset = 0x800;  ///< of the send doorbell in a UAR page
constexpr uint64_t kShown = MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ | MLX5DV_OBJ_RWQ | MLX5DV_OBJ_DM |
                            MLX5DV_OBJ_AH | MLX5DV_OBJ_PD;

int show(ibv_qp* in, mlx5dv_qp& out) {
  QueuePair& qp = QueuePair::of(in);
  std::byte* page = expose(qp);
  if (page == nullptr) return ENOMEM;
  out.dbrec = qp.doorbell;
  out.sq = {qp.send_ring, qp.blocks, kBlock};
  out.rq = {qp.receive_ring, qp.receive_entries, qp.receive_stride};
  // Size 0, no BlueFlame: the register takes doorbells only.
  out.bf = {page + kDoorbellOffset, 0};
  // Neither raw packet queues but a TIR, nor pages that another process could map.
  const bool handles = qp.spreader != 0 && (out.comp_mask & MLX5DV_QP_MASK_RAW_QP_HANDLES) != 0;
  out.comp_mask = handles ? MLX5DV_QP_MASK_RAW_QP_HANDLES : 0;
  if (!handles) return 0;
  out.tirn = qp.spreader;
  out.tisn = out.rqn = out.sqn = 0;
  return 0;
}

int show(ibv_cq* in, mlx5dv_cq& out) {
  CompletionQueue& cq = CompletionQueue::of(in);
  std::byte* page = expose(cq);
  if (page == nullptr) return ENOMEM;
  const CompletionRing& ring = *cq.ring.load();
  out.buf = ring.memory.base();
  out.dbrec = cq.doorbell;
  out.cqe_cnt = ring.entries;
  out.cqe_size = ring.stride();
  out.cq_uar = page;
  out.cqn = cq.device->number;
  out.comp_mask = 0;
  return 0;
}

void show(ibv_srq* in, mlx5dv_srq& out) {
  SharedReceiveQueue& srq = SharedReceiveQueue::of(in);
  out.buf = srq.ring;
  out.dbrec = srq.doorbell;
  out.stride = srq.stride;
  {
    const std::lock_guard guard(srq.lock);
    out.head = srq.head;
    out.tail = srq.tail;
  }
  if ((out.comp_mask & MLX5DV_SRQ_MASK_SRQN) != 0) out.srqn = srq.device->number;
  out.comp_mask &= MLX5DV_SRQ_MASK_SRQN;
}

/// Only memory that is the program's has an address for it, only the device's tables have one for commands.
void show(ibv_dm* in, mlx5dv_dm& out) {
  const verbs::DeviceMemory& memory = *verbs::DeviceMemory::of(in);
  const bool plain = memory.kind == hw::DmKind::kMemic;
  out.buf = plain ? memory.device->base : nullptr;
  out.length = memory.device->bytes;
  if ((out.comp_mask & MLX5DV_DM_MASK_REMOTE_VA) != 0)
    out.remote_va = plain ? 0 : memory.device->device_address;
  out.comp_mask &= MLX5DV_DM_MASK_REMOTE_VA;
}

void show(ibv_wq* in, mlx5dv_rwq& out) {
  const QueuePair& qp = WorkQueue::of(in).receives;
  out.buf = qp.receive_ring;
  out.dbrec = qp.doorbell;
  out.wqe_cnt = qp.receive_entries;
  out.stride = qp.receive_stride;
  out.comp_mask = 0;
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
  if ((types & MLX5DV_OBJ_DM) != 0 && own(obj.dm.in->context) == nullptr) return false;
  if ((types & MLX5DV_OBJ_RWQ) != 0 && own(obj.rwq.in->context) == nullptr) return false;
  if ((types & MLX5DV_OBJ_AH) != 0 && own(obj.ah.in->context) == nullptr) return false;
  return (types & MLX5DV_OBJ_PD) == 0 || own(obj.pd.in->context) != nullptr;
}

}  // namespace
}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

int mlx5dv_init_obj(mlx5dv_obj* obj, uint64_t types) {
  if (types == 0) return EINVAL;
  if ((types & ~kShown) != 0 || !all_own(*obj, types)) return EOPNOTSUPP;
  if ((types & MLX5DV_OBJ_QP) != 0) {
    if (const int error = show(obj->qp.in, *obj->qp.out)) return error;
  }
  if ((types & MLX5DV_OBJ_CQ) != 0) {
    if (const int error = show(obj->cq.in, *obj->cq.out)) return error;
  }
  if ((types & MLX5DV_OBJ_SRQ) != 0) show(obj->srq.in, *obj->srq.out);
  if ((types & MLX5DV_OBJ_DM) != 0) show(obj->dm.in, *obj->dm.out);
  if ((types & MLX5DV_OBJ_RWQ) != 0) show(obj->rwq.in, *obj->rwq.out);
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

}  // extern "C"
