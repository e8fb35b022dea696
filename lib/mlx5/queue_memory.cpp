// SPDX-License-Identifier: MIT
#include "lib/mlx5/queue_memory.h"

#include <strings.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {
namespace {

constexpr uint64_t kDriver = uint64_t{RDMA_DRIVER_MLX5} << 32;
constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

/// Where the environment wants a queue's memory from.
enum class Wish { kHeap, kHugeOrHeap, kHuge, kContiguous };
Wish wish(MemoryUse use) {
  const char* variable = nullptr;
  switch (use) {
    case MemoryUse::kQueuePair:
      variable = "MLX_QP_ALLOC_TYPE";
      break;
    case MemoryUse::kWorkQueue:
      variable = "MLX_RWQ_ALLOC_TYPE";
      break;
    case MemoryUse::kSharedReceiveQueue:
      variable = "MLX_SRQ_ALLOC_TYPE";
      break;
    case MemoryUse::kCompletionQueue:
      variable = "MLX_CQ_ALLOC_TYPE";
      break;
    case MemoryUse::kDoorbell:
      return Wish::kHeap;
  }
  const char* text = std::getenv(variable);
  if (text == nullptr) return Wish::kHeap;
  if (strcasecmp(text, "HUGE") == 0) return Wish::kHuge;
  if (strcasecmp(text, "CONTIG") == 0) return Wish::kContiguous;
  return strcasecmp(text, "PREFER_HUGE") == 0 || strcasecmp(text, "ALL") == 0 ? Wish::kHugeOrHeap
                                                                              : Wish::kHeap;
}

}  // namespace

MemorySource::MemorySource(verbs::Context& context, verbs::ProtectionDomain* from)
    : domain(from != nullptr && from->has_allocators() ? from : nullptr), allocators{} {
  ContextState& state = ContextState::of(context);
  const std::lock_guard guard(state.lock);
  const bool usable = state.allocators.alloc != nullptr && state.allocators.free != nullptr;
  if (domain == nullptr && usable) allocators = state.allocators;
}

QueueMemory::~QueueMemory() {
  if (base_ == nullptr) return;
  if (origin_ == nullptr) {
    std::free(base_);
    return;
  }
  if (origin_->huge_bytes != 0) {
    ::munmap(base_, origin_->huge_bytes);
    return;
  }
  if (origin_->given != nullptr) {
    origin_->allocators.free(origin_->given, origin_->allocators.data);
    return;
  }
  const ibv_parent_domain_init_attr& parent = origin_->domain->parent;
  parent.free(&origin_->domain->base, parent.pd_context, base_,
              kDriver | static_cast<uint32_t>(origin_->use));
}

bool QueueMemory::allocate(const MemorySource& source, size_t bytes, size_t alignment, MemoryUse use) {
  bytes_ = bytes;
  if (!source.is_heap() || wish(use) != Wish::kHeap) {
    origin_.reset(new (std::nothrow) Origin{.use = use});
    if (origin_ == nullptr) return false;
    const Given given = allocate_elsewhere(source, alignment);
    if (given != Given::kNone) return given == Given::kMemory;
    origin_.reset();
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) return false;
  base_ = static_cast<std::byte*>(memory);
  return true;
}

QueueMemory::Given QueueMemory::allocate_elsewhere(const MemorySource& source, size_t alignment) {
  if (source.domain != nullptr) {
    const ibv_parent_domain_init_attr& parent = source.domain->parent;
    void* given = parent.alloc(&source.domain->base, parent.pd_context, bytes_, alignment,
                               kDriver | static_cast<uint32_t>(origin_->use));
    if (given != IBV_ALLOCATOR_USE_DEFAULT) {
      origin_->domain = source.domain;
      base_ = static_cast<std::byte*>(given);
      return base_ != nullptr ? Given::kMemory : Given::kRefused;
    }
  }
  // These are told nothing of alignment.
  if (source.allocators.alloc != nullptr) {
    origin_->allocators = source.allocators;
    origin_->given = source.allocators.alloc(bytes_ + alignment - 1, source.allocators.data);
    const uintptr_t start = reinterpret_cast<uintptr_t>(origin_->given);
    base_ = reinterpret_cast<std::byte*>((start + alignment - 1) / alignment * alignment);
    if (origin_->given != nullptr) return Given::kMemory;
  }
  return allocate_by_wish();
}

QueueMemory::Given QueueMemory::allocate_by_wish() {
  const Wish wished = wish(origin_->use);
  const bool huge = wished == Wish::kHuge || wished == Wish::kHugeOrHeap;
  if (huge && map_huge()) return Given::kMemory;
  // No program here can tell how pages lie in the machine's memory.
  return wished == Wish::kHuge || wished == Wish::kContiguous ? Given::kRefused : Given::kNone;
}

bool QueueMemory::map_huge() {
  const size_t mapped = (bytes_ + kHugePage - 1) / kHugePage * kHugePage;
  void* memory =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (memory == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(memory);
  origin_->huge_bytes = mapped;
  return true;
}

uint32_t* DoorbellRecord::allocate(const MemorySource& source) {
  if (source.is_heap()) return words_;
  if (!given_.allocate(source, kCacheLine, kCacheLine, MemoryUse::kDoorbell)) return nullptr;
  std::memset(given_.base(), 0, kCacheLine);
  return reinterpret_cast<uint32_t*>(given_.base());
}

}  // namespace verbatim::mlx5
