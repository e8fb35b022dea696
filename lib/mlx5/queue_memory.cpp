// SPDX-License-Identifier: MIT
#include "lib/mlx5/queue_memory.h"

#include <cstdlib>
#include <cstring>

namespace verbatim::mlx5 {
namespace {

constexpr uint64_t kDriver = uint64_t{RDMA_DRIVER_MLX5} << 32;
constexpr size_t kCacheLine = 64;

}  // namespace

QueueMemory::~QueueMemory() {
  if (base_ == nullptr) return;
  if (domain_ == nullptr) {
    std::free(base_);
    return;
  }
  const ibv_parent_domain_init_attr& parent = domain_->parent;
  parent.free(&domain_->base, parent.pd_context, base_, kDriver | static_cast<uint32_t>(use_));
}

bool QueueMemory::allocate(verbs::ProtectionDomain* domain, size_t bytes, size_t alignment, MemoryUse use) {
  use_ = use;
  bytes_ = bytes;
  if (domain != nullptr && domain->has_allocators()) {
    const ibv_parent_domain_init_attr& parent = domain->parent;
    void* given = parent.alloc(&domain->base, parent.pd_context, bytes, alignment,
                               kDriver | static_cast<uint32_t>(use));
    if (given != IBV_ALLOCATOR_USE_DEFAULT) {
      domain_ = domain;
      base_ = static_cast<std::byte*>(given);
      return base_ != nullptr;
    }
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) return false;
  base_ = static_cast<std::byte*>(memory);
  return true;
}

uint32_t* DoorbellRecord::allocate(verbs::ProtectionDomain* domain) {
  if (domain == nullptr || !domain->has_allocators()) return words_;
  if (!given_.allocate(domain, kCacheLine, kCacheLine, MemoryUse::kDoorbell)) return nullptr;
  std::memset(given_.base(), 0, kCacheLine);
  return reinterpret_cast<uint32_t*>(given_.base());
}

}  // namespace verbatim::mlx5
