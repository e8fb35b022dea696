// SPDX-License-Identifier: MIT
#include "lib/mlx5/queue_memory.h"

#include <strings.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

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
  if (huge_bytes_ != 0) {
    ::munmap(base_, huge_bytes_);
    return;
  }
  if (given_ != nullptr) {
    allocators_.free(given_, allocators_.data);
    return;
  }
  if (domain_ == nullptr) {
    std::free(base_);
    return;
  }
  const ibv_parent_domain_init_attr& parent = domain_->parent;
  parent.free(&domain_->base, parent.pd_context, base_, kDriver | static_cast<uint32_t>(use_));
}

bool QueueMemory::allocate(const MemorySource& source, size_t bytes, size_t alignment, MemoryUse use) {
  use_ = use;
  bytes_ = bytes;
  if (source.domain != nullptr) {
    const ibv_parent_domain_init_attr& parent = source.domain->parent;
    void* given = parent.alloc(&source.domain->base, parent.pd_context, bytes, alignment,
                               kDriver | static_cast<uint32_t>(use));
    if (given != IBV_ALLOCATOR_USE_DEFAULT) {
      domain_ = source.domain;
      base_ = static_cast<std::byte*>(given);
      return base_ != nullptr;
    }
  }
  // These are told nothing of alignment.
  if (source.allocators.alloc != nullptr) {
    allocators_ = source.allocators;
    given_ = allocators_.alloc(bytes + alignment - 1, allocators_.data);
    const uintptr_t start = reinterpret_cast<uintptr_t>(given_);
    base_ = reinterpret_cast<std::byte*>((start + alignment - 1) / alignment * alignment);
    if (given_ != nullptr) return true;
  }
  const Wish wished = wish(use);
  const bool huge = wished == Wish::kHuge || wished == Wish::kHugeOrHeap;
  if (huge && map_huge(bytes)) return true;
  // No program here can tell how pages lie in the machine's memory.
  if (wished == Wish::kHuge || wished == Wish::kContiguous) return false;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) return false;
  base_ = static_cast<std::byte*>(memory);
  return true;
}

bool QueueMemory::map_huge(size_t bytes) {
  const size_t mapped = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* memory =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (memory == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(memory);
  huge_bytes_ = mapped;
  return true;
}

uint32_t* DoorbellRecord::allocate(const MemorySource& source) {
  if (source.is_heap()) return words_;
  if (!given_.allocate(source, kCacheLine, kCacheLine, MemoryUse::kDoorbell)) return nullptr;
  std::memset(given_.base(), 0, kCacheLine);
  return reinterpret_cast<uint32_t*>(given_.base());
}

}  // namespace verbatim::mlx5
