// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "lib/ibverbs/provider.h"

namespace verbatim::mlx5 {

/// What memory is for, as the allocators of a parent domain are told (MLX5DV_RES_TYPE_x).
enum class MemoryUse : uint32_t {
  kQueuePair = 1,
  kDoorbell = 3,
  kSharedReceiveQueue = 4,
  kCompletionQueue = 5
};

/// Memory of a queue: from the allocators of a parent domain where it has some, else from the heap. Freed
/// with the object.
class QueueMemory {
 public:
  QueueMemory() = default;
  QueueMemory(QueueMemory&& other) noexcept { *this = std::move(other); }
  QueueMemory& operator=(QueueMemory&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    std::swap(use_, other.use_);
    std::swap(domain_, other.domain_);
    return *this;
  }
  ~QueueMemory();

  /// `domain` may be nullptr. Not initialized. False: no memory.
  bool allocate(verbs::ProtectionDomain* domain, size_t bytes, size_t alignment, MemoryUse use);
  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  MemoryUse use_{};
  verbs::ProtectionDomain* domain_ = nullptr;  ///< whose allocator it came from
};

/// The two words through which queue positions are told to the device: beside the queue's state, unless the
/// parent domain has allocators.
class DoorbellRecord {
 public:
  /// Returns the zeroed words, or nullptr: no memory.
  uint32_t* allocate(verbs::ProtectionDomain* domain);

 private:
  alignas(8) uint32_t words_[2] = {};
  QueueMemory given_;
};

}  // namespace verbatim::mlx5
