// SPDX-License-Identifier: MIT
// Making, resizing, cleaning and releasing completion queues.
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include "lib/mlx5/mlx5.h"
#include "lib/mlx5/raw_doorbells.h"

namespace verbatim::mlx5 {
namespace {

using connectx::Cqe;

constexpr size_t kCacheLine = 64;
constexpr uint8_t kOwnerBit = 1;

/// One entry more than asked for, as a ConnectX has it.
uint32_t ring_entries(uint32_t wanted) { return std::bit_ceil(wanted + 1); }

/// An empty ring, kept with the queue; nullptr: no memory.
CompletionRing* make_ring(verbs::Context& context, CompletionQueue& cq, uint32_t entries) {
  const size_t bytes = static_cast<size_t>(entries) << cq.stride_shift;
  CompletionRing* ring = nullptr;
  for (const auto& former : cq.rings)
    if (former->entries == entries && former->stride_shift == cq.stride_shift) ring = former.get();
  if (ring == nullptr) {
    auto made = std::make_unique<CompletionRing>();
    if (!made->memory.allocate(MemorySource(context, cq.domain), bytes, kCacheLine,
                               MemoryUse::kCompletionQueue))
      return nullptr;
    made->stride_shift = cq.stride_shift;
    made->base = made->memory.base() + made->stride() - sizeof(Cqe);
    made->entries = entries;
    ring = made.get();
    cq.rings.push_back(std::move(made));
  }
  for (uint32_t i = 0; i < entries; i++) {
    Cqe& cqe = *ring->entry(i);
    std::memset(static_cast<void*>(&cqe), 0, sizeof cqe - 1);
    __atomic_store_n(&cqe.opcode_owner, uint8_t{connectx::kCqeInvalid << 4 | kOwnerBit}, __ATOMIC_RELAXED);
  }
  return ring;
}

hw::QueueMemory describe(const CompletionQueue& cq, const CompletionRing& ring) {
  return {ring.memory.base(), ring.memory.bytes(), ring.entries, ring.stride(), cq.padded, cq.compressed};
}

}  // namespace

uint32_t cqe_bytes_wanted() {
  const char* value = std::getenv("MLX5_CQE_SIZE");
  return value != nullptr ? static_cast<uint32_t>(std::strtoul(value, nullptr, 10)) : sizeof(Cqe);
}

verbs::CompletionQueue* create_cq(verbs::Context& context, const ibv_cq_init_attr_ex& attributes,
                                  bool extended) {
  auto cq = std::unique_ptr<CompletionQueue>(new (std::nothrow) CompletionQueue);
  verbs::ProtectionDomain* domain = nullptr;
  if ((attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 && attributes.parent_domain != nullptr)
    domain = verbs::ProtectionDomain::of(attributes.parent_domain);
  const uint32_t entries = ring_entries(attributes.cqe);
  const uint32_t cqe_bytes = cqe_bytes_wanted();
  if (cqe_bytes != 64 && cqe_bytes != 128)
    return verbs::refuse_pointer(context, EINVAL,
                                 "MLX5_CQE_SIZE: completion queue entries have 64 or 128 bytes");
  if (cq != nullptr && cqe_bytes == 128) cq->stride_shift = 7;
  if (cq != nullptr) cq->domain = domain;
  if (cq != nullptr) cq->doorbell = cq->record.allocate(MemorySource(context, domain));
  if (cq != nullptr) cq->ring = make_ring(context, *cq, entries);
  if (cq == nullptr || cq->doorbell == nullptr || cq->ring == nullptr)
    return verbs::refuse_pointer(context, ENOMEM, "no memory for a completion queue");
  const bool flags_given = (attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  hw::CqSpec spec;
  spec.ring = describe(*cq, *cq->ring);
  spec.doorbell = cq->doorbell;
  spec.ignore_overrun = flags_given && (attributes.flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0;
  constexpr uint64_t kWallClock = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  spec.real_time = cq->real_time =
      extended && (attributes.wc_flags & (kWallClock | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)) == kWallClock;
  spec.owner = static_cast<verbs::CompletionQueue*>(cq.get());
  cq->hca = context.hca;
  cq->polls = &context.hca->program_polls();
  cq->queue_pairs = &ContextState::of(context).queue_pairs;
  cq->clock_khz = context.hca->limits().timestamp_khz;
  cq->cq.cqe = static_cast<int>(entries - 1);
  const bool one_thread = flags_given && (attributes.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  if (one_thread || (domain != nullptr && domain->thread_domain != nullptr)) cq->lock.disable();
  if (extended) install_extended_polling(*cq);
  auto device = context.hca->create_cq(spec);
  if (!device) return verbs::refuse_pointer(context, device.error());
  cq->device = *device;
  cq->device->timed.store(extended, std::memory_order_relaxed);  // ibv_wc has no room for it
  return cq.release();
}

int resize_cq(verbs::CompletionQueue& base, uint32_t wanted) {
  auto& cq = static_cast<CompletionQueue&>(base);
  const uint32_t entries = ring_entries(wanted);
  const std::lock_guard guard(cq.lock);
  if (entries == cq.entries()) return 0;
  uint32_t unread = 0;
  while (unread < cq.entries() && cq.written(cq.consumed + unread) != nullptr) unread++;
  if (unread >= entries)
    return verbs::refuse(*cq.context, EINVAL, "ibv_resize_cq: more completions wait than would fit");
  CompletionRing* const ring = make_ring(*cq.context, cq, entries);
  if (ring == nullptr) return verbs::refuse(*cq.context, ENOMEM, "no memory for a completion queue");
  if (const int error = verbs::settle(*cq.context, cq.hca->resize_cq(cq.device, describe(cq, *ring))))
    return error;
  cq.ring.store(ring, std::memory_order_release);
  cq.cq.cqe = static_cast<int>(entries - 1);
  return 0;
}

int set_entries(CompletionQueue& cq, uint32_t bytes, bool padded, bool compressed) {
  const std::lock_guard guard(cq.lock);
  const uint32_t entries = cq.entries();
  const uint32_t shift = bytes == 128 ? 7 : 6;
  if (shift == cq.stride_shift && !padded && !compressed) return 0;
  cq.stride_shift = shift;
  cq.padded = padded;
  cq.compressed = compressed;
  CompletionRing* const ring = make_ring(*cq.context, cq, entries);
  if (ring == nullptr) return verbs::refuse(*cq.context, ENOMEM, "no memory for a completion queue");
  if (const int error = verbs::settle(*cq.context, cq.hca->resize_cq(cq.device, describe(cq, *ring))))
    return error;
  cq.ring.store(ring, std::memory_order_release);
  return 0;
}

// Entries that stay are moved towards the producer, over those that go; their owner bits belong to their
// places.
void clean_cq(CompletionQueue& cq, uint32_t user_index, SharedReceiveQueue* srq) {
  const std::lock_guard guard(cq.lock);
  cq.last_qp = nullptr;
  if (cq.exposed) return;  // its program says how far it has read
  uint32_t end = cq.consumed;
  while (end - cq.consumed < cq.entries() && cq.written(end) != nullptr) end++;
  uint32_t gone = 0;
  for (uint32_t at = end; at-- != cq.consumed;) {
    const Cqe& cqe = *cq.entry(at);
    const auto kind = static_cast<uint8_t>(cqe.opcode_owner >> 4);
    if (kind != connectx::kCqeSignatureError && (cqe.user_index & 0xffffff) == user_index) {
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
  __atomic_store_n(&cq.consumed, cq.consumed + gone, __ATOMIC_RELAXED);
  cq.publish_consumed();
}

int destroy_cq(verbs::CompletionQueue& base) {
  auto& cq = static_cast<CompletionQueue&>(base);
  const bool exposed = conceal(cq);
  const int error = verbs::settle(*cq.context, cq.hca->destroy_cq(cq.device));
  if (error != 0 && exposed) (void)expose(cq);
  return error;
}

void free_cq(verbs::CompletionQueue& cq) { delete static_cast<CompletionQueue*>(&cq); }

}  // namespace verbatim::mlx5
