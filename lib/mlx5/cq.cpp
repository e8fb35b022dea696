// SPDX-License-Identifier: MIT
// Making, resizing, cleaning and releasing completion queues.
#include <bit>
#include <cstring>
#include <new>

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {
namespace {

using connectx::Cqe;

constexpr size_t kCacheLine = 64;
constexpr uint8_t kOwnerBit = 1;

/// One entry more than asked for, as a ConnectX has it.
uint32_t ring_entries(uint32_t wanted) { return std::bit_ceil(wanted + 1); }

bool allocate_ring(verbs::ProtectionDomain* domain, uint32_t entries, QueueMemory& memory) {
  const size_t bytes = static_cast<size_t>(entries) * sizeof(Cqe);
  if (!memory.allocate(domain, bytes, kCacheLine, MemoryUse::kCompletionQueue)) return false;
  std::memset(memory.base(), 0, bytes);
  auto* cqe = reinterpret_cast<Cqe*>(memory.base());
  for (uint32_t i = 0; i < entries; i++) cqe[i].opcode_owner = connectx::kCqeInvalid << 4 | kOwnerBit;
  return true;
}

hw::QueueMemory describe(const QueueMemory& memory, uint32_t entries) {
  return {memory.base(), memory.bytes(), entries, sizeof(Cqe)};
}

}  // namespace

verbs::CompletionQueue* create_cq(verbs::Context& context, const ibv_cq_init_attr_ex& attributes,
                                  bool extended) {
  auto cq = std::unique_ptr<CompletionQueue>(new (std::nothrow) CompletionQueue);
  verbs::ProtectionDomain* domain = nullptr;
  if ((attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 && attributes.parent_domain != nullptr)
    domain = verbs::ProtectionDomain::of(attributes.parent_domain);
  const uint32_t entries = ring_entries(attributes.cqe);
  if (cq != nullptr) cq->doorbell = cq->record.allocate(domain);
  if (cq == nullptr || cq->doorbell == nullptr || !allocate_ring(domain, entries, cq->memory))
    return verbs::refuse_pointer(context, ENOMEM, "no memory for a completion queue");
  const bool flags_given = (attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  hw::CqSpec spec;
  spec.ring = describe(cq->memory, entries);
  spec.doorbell = cq->doorbell;
  spec.ignore_overrun = flags_given && (attributes.flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0;
  spec.owner = static_cast<verbs::CompletionQueue*>(cq.get());
  cq->domain = domain;
  cq->ring = cq->memory.base();
  cq->entries = entries;
  cq->hca = context.hca;
  cq->queue_pairs = &ContextState::of(context).queue_pairs;
  cq->clock_khz = context.hca->limits().timestamp_khz;
  cq->cq.cqe = static_cast<int>(entries - 1);
  const bool one_thread = flags_given && (attributes.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  if (one_thread || (domain != nullptr && domain->thread_domain != nullptr)) cq->lock.disable();
  if (extended) install_extended_polling(*cq);
  auto device = context.hca->create_cq(spec);
  if (!device) return verbs::refuse_pointer(context, device.error());
  cq->device = *device;
  return cq.release();
}

int resize_cq(verbs::CompletionQueue& base, uint32_t wanted) {
  auto& cq = static_cast<CompletionQueue&>(base);
  const uint32_t entries = ring_entries(wanted);
  const std::lock_guard guard(cq.lock);
  if (entries == cq.entries) return 0;
  QueueMemory memory;
  if (!allocate_ring(cq.domain, entries, memory))
    return verbs::refuse(*cq.context, ENOMEM, "no memory for a completion queue");
  uint32_t unread = 0;
  while (unread < cq.entries && cq.written(cq.consumed + unread) != nullptr) unread++;
  if (unread >= entries)
    return verbs::refuse(*cq.context, EINVAL, "ibv_resize_cq: more completions wait than would fit");
  if (const int error = verbs::settle(*cq.context, cq.hca->resize_cq(cq.device, describe(memory, entries))))
    return error;
  cq.memory = std::move(memory);
  cq.ring = cq.memory.base();
  cq.entries = entries;
  cq.cq.cqe = static_cast<int>(entries - 1);
  return 0;
}

// Entries that stay are moved towards the producer, over those that go; their owner bits belong to their
// places.
void clean_cq(CompletionQueue& cq, uint32_t user_index, SharedReceiveQueue* srq) {
  const std::lock_guard guard(cq.lock);
  cq.last_qp = nullptr;
  uint32_t end = cq.consumed;
  while (end - cq.consumed < cq.entries && cq.written(end) != nullptr) end++;
  uint32_t gone = 0;
  for (uint32_t at = end; at-- != cq.consumed;) {
    const Cqe& cqe = *cq.entry(at);
    if ((cqe.user_index & 0xffffff) == user_index) {
      const auto kind = static_cast<uint8_t>(cqe.opcode_owner >> 4);
      const bool receive = kind != connectx::kCqeRequest && kind != connectx::kCqeRequestError;
      if (srq != nullptr && receive) srq->release(cqe.wqe_counter & (srq->entries - 1));
      gone++;
    } else if (gone != 0) {
      Cqe& to = *cq.entry(at + gone);
      const uint8_t owner = to.opcode_owner & kOwnerBit;
      std::memcpy(static_cast<void*>(&to), &cqe, sizeof to);
      to.opcode_owner = static_cast<uint8_t>((to.opcode_owner & ~kOwnerBit) | owner);
    }
  }
  if (gone == 0) return;
  cq.consumed += gone;
  cq.publish_consumed();
}

int destroy_cq(verbs::CompletionQueue& cq) {
  return verbs::settle(*cq.context, cq.context->hca->destroy_cq(cq.device));
}

void free_cq(verbs::CompletionQueue& cq) { delete static_cast<CompletionQueue*>(&cq); }

}  // namespace verbatim::mlx5
