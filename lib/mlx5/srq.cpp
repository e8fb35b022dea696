// SPDX-License-Identifier: MIT
// Making and releasing shared receive queues.
#include <bit>
#include <cstring>
#include <new>

#include "lib/mlx5/mlx5.h"
#include "lib/mlx5/qp_sizes.h"
#include "lib/mlx5/tag_list.h"

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

/// Completions of a queue in an XRC domain, or with a tag list, name no queue pair of this library, but the
/// queue: it looks like one that only receives.
bool give_completions(verbs::Context& context, SharedReceiveQueue& srq,
                      const ibv_srq_init_attr_ex& attributes) {
  srq.cq = &CompletionQueue::of(attributes.cq);
  srq.receives.reset(new (std::nothrow) QueuePair);
  if (srq.receives == nullptr) return false;
  srq.receives->srq = &srq;
  if (ContextState::of(context).queue_pairs.add(*srq.receives, srq.receives->user_index)) return true;
  srq.receives = nullptr;
  return false;
}

void take_completions(verbs::Context& context, SharedReceiveQueue& srq) {
  if (srq.receives != nullptr) ContextState::of(context).queue_pairs.remove(srq.receives->user_index);
}

/// The tag list of a queue that is on the device.
int open_tags(SharedReceiveQueue& srq, verbs::ProtectionDomain& domain, ibv_srq_init_attr_ex& attributes) {
  const int error = srq.tags->open(domain, srq.base, *attributes.cq, std::max(attributes.tm_cap.max_ops, 1u));
  if (error == 0) attributes.tm_cap.max_ops = srq.tags->commands().depth;
  return error;
}

}  // namespace

SharedReceiveQueue::SharedReceiveQueue() = default;
SharedReceiveQueue::~SharedReceiveQueue() = default;

verbs::SharedReceiveQueue* create_srq(verbs::ProtectionDomain& domain, ibv_srq_init_attr_ex& attributes) {
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
  const bool tagged = attributes.srq_type == IBV_SRQT_TM;
  if (tagged) srq->tags = TagList::make(spec.tags = attributes.tm_cap.max_num_tags);
  if (tagged || attributes.srq_type == IBV_SRQT_XRC) {
    if ((tagged && srq->tags == nullptr) || !give_completions(context, *srq, attributes))
      return verbs::refuse_pointer(context, ENOMEM, "no memory for a shared receive queue");
    if (!tagged) spec.xrcd = verbs::XrcDomain::of(attributes.xrcd)->number;
    spec.cq = srq->cq->device;
    spec.user_index = srq->receives->user_index;
  }
  auto device = context.hca->create_srq(spec);
  if (!device) {
    take_completions(context, *srq);
    return verbs::refuse_pointer(context, device.error());
  }
  srq->device = *device;
  srq->context = &context;
  if (!tagged) return srq.release();
  if (const int error = open_tags(*srq, domain, attributes)) {
    static_cast<void>(context.hca->destroy_srq(srq->device));
    take_completions(context, *srq);
    errno = error;
    return nullptr;
  }
  return srq.release();
}

int destroy_srq(verbs::SharedReceiveQueue& base) {
  auto& srq = static_cast<SharedReceiveQueue&>(base);
  if (srq.tags != nullptr) {
    if (srq.queue_pairs > 1)  // besides that of its changes
      return verbs::refuse(*srq.context, EBUSY, "queue pairs still use the shared receive queue");
    if (const int error = srq.tags->close()) return error;
  }
  if (const int error = verbs::settle(*srq.context, srq.context->hca->destroy_srq(srq.device))) return error;
  if (srq.receives == nullptr) return 0;
  clean_cq(*srq.cq, srq.receives->user_index, nullptr);
  take_completions(*srq.context, srq);
  return 0;
}

void free_srq(verbs::SharedReceiveQueue& srq) { delete static_cast<SharedReceiveQueue*>(&srq); }

}  // namespace verbatim::mlx5
