// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "lib/ibverbs/provider.h"
#include "lib/mlx5/public.h"

namespace verbatim::mlx5 {

/// What memory is for, as the allocators of a parent domain are told (MLX5DV_RES_TYPE_x).
enum class MemoryUse : uint32_t {
  kQueuePair = 1,
  kWorkQueue = 2,
  kDoorbell = 3,
  kSharedReceiveQueue = 4,
  kCompletionQueue = 5
};

/// Whose allocators give the memory of an object: the parent domain's if it has some, else the context's.
struct MemorySource {
  MemorySource(verbs::Context& context, verbs::ProtectionDomain* domain);
  verbs::ProtectionDomain* domain;  ///< with allocators, or nullptr
  mlx5dv_ctx_allocators allocators;
  bool is_heap() const { return domain == nullptr && allocators.alloc == nullptr; }
};

/// Memory of a queue: from the allocators that its source has, else from where MLX_QP_ALLOC_TYPE (_CQ_,
/// _SRQ_) says: HUGE pages only, PREFER_HUGE or ALL where there are some; otherwise from the heap. Freed with
/// the object.
class QueueMemory {
 public:
  QueueMemory() = default;
  QueueMemory(QueueMemory&& other) noexcept { *this = std::move(other); }
  QueueMemory& operator=(QueueMemory&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    std::swap(origin_, other.origin_);
    return *this;
  }
  ~QueueMemory();

  /// Not initialized. False: no memory.
  bool allocate(const MemorySource& source, size_t bytes, size_t alignment, MemoryUse use);
  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  /// Of memory that is not from the heap.
  struct Origin {
    MemoryUse use{};
    verbs::ProtectionDomain* domain = nullptr;  ///< whose allocator it came from
    mlx5dv_ctx_allocators allocators{};         ///< or those of a context
    void* given = nullptr;                      ///< what they gave
    size_t huge_bytes = 0;                      ///< or mapped in huge pages
  };
  enum class Given : uint8_t { kMemory, kNone, kRefused };
  Given allocate_elsewhere(const MemorySource& source, size_t alignment);
  Given allocate_by_wish();
  bool map_huge();

  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  std::unique_ptr<Origin> origin_;  ///< nullptr: the heap
};

/// The two words through which queue positions are told to the device: beside the queue's state, unless the
/// source has allocators.
class DoorbellRecord {
 public:
  /// Returns the zeroed words, or nullptr: no memory.
  uint32_t* allocate(const MemorySource& source);

 private:
  alignas(8) uint32_t words_[2] = {};
  QueueMemory given_;
};

}  // namespace verbatim::mlx5
