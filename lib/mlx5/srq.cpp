// SPDX-License-Identifier: MIT
// Making and releasing shared receive queues.
#include <bit>
#include <cstring>
#include <new>

#include "lib/mlx5/mlx5.h"
#include "lib/mlx5/qp_sizes.h"

namespace verbatim::mlx5 {
namespace {

constexpr size_t kCacheLine = 64;

bool allocate(SharedReceiveQueue& srq, verbs::ProtectionDomain& domain) {
  const size_t bytes = static_cast<size_t>(srq.entries) * srq.stride;
  const MemorySource source(*domain.context, &domain);
  srq.doorbell = srq.record.allocate(source);
  if (srq.doorbell == nullptr) return false;
  if (!srq.memory.allocate(source, bytes, kCacheLine, MemoryUse::kSharedReceiveQueue)) return false;
  std::memset(srq.memory.base(), 0, bytes);
  srq.ring = srq.memory.base();
  srq.ids.reset(new (std::nothrow) uint64_t[srq.entries]{});
  return srq.ids != nullptr;
}

}  // namespace

verbs::SharedReceiveQueue* create_srq(verbs::ProtectionDomain& domain, ibv_srq_init_attr& attributes) {
  verbs::Context& context = *domain.context;
  auto srq = std::unique_ptr<SharedReceiveQueue>(new (std::nothrow) SharedReceiveQueue);
  if (srq != nullptr) {
    srq->stride = shared_receive_stride(attributes.attr.max_sge);
    // One entry is the end of the free list and cannot be posted.
    srq->entries = std::bit_ceil(std::max(attributes.attr.max_wr, 1u) + 1);
  }
  if (srq == nullptr || !allocate(*srq, domain))
    return verbs::refuse_pointer(context, ENOMEM, "no memory for a shared receive queue");
  for (uint32_t i = 0; i < srq->entries; i++)
    srq->link_at(i)->next_index = static_cast<uint16_t>((i + 1) & (srq->entries - 1));
  srq->tail = srq->entries - 1;
  const auto head = static_cast<uint32_t>(sizeof(connectx::SharedNextSegment));
  attributes.attr.max_wr = srq->entries - 1;
  attributes.attr.max_sge = (srq->stride - head) / kUnit;
  srq->max_sge = attributes.attr.max_sge;
  if (domain.thread_domain != nullptr) srq->lock.disable();
  hw::SrqSpec spec;
  spec.pd = domain.device;
  spec.ring = {srq->ring, srq->memory.bytes(), srq->entries, srq->stride};
  spec.doorbell = srq->doorbell;
  spec.sge_max = srq->max_sge;
  spec.owner = static_cast<verbs::SharedReceiveQueue*>(srq.get());
  auto device = context.hca->create_srq(spec);
  if (!device) return verbs::refuse_pointer(context, device.error());
  srq->device = *device;
  return srq.release();
}

int destroy_srq(verbs::SharedReceiveQueue& srq) {
  return verbs::settle(*srq.context, srq.context->hca->destroy_srq(srq.device));
}

void free_srq(verbs::SharedReceiveQueue& srq) { delete static_cast<SharedReceiveQueue*>(&srq); }

}  // namespace verbatim::mlx5
