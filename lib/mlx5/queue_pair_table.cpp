// SPDX-License-Identifier: MIT
#include <new>

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {

QueuePairTable::~QueuePairTable() {
  for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
}

bool QueuePairTable::add(QueuePair& qp, uint32_t& index) {
  const std::lock_guard guard(lock_);
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    if (next_ == kChunks * kChunkEntries) return false;
    index = next_++;
  }
  auto& slot = chunks_[index >> kChunkBits];
  auto* chunk = slot.load(std::memory_order_relaxed);
  if (chunk == nullptr) {
    chunk = new (std::nothrow) std::atomic<QueuePair*>[kChunkEntries] {};
    if (chunk == nullptr) {
      free_.push_back(index);
      return false;
    }
    slot.store(chunk, std::memory_order_release);
  }
  chunk[index & (kChunkEntries - 1)].store(&qp, std::memory_order_release);
  return true;
}

bool QueuePairTable::holds_number(uint32_t qpn) {
  const std::lock_guard guard(lock_);
  for (uint32_t index = 1; index < next_; index++) {
    const QueuePair* qp = find(index);
    if (qp != nullptr && qp->number == qpn) return true;
  }
  return false;
}

void QueuePairTable::remove(uint32_t index) {
  const std::lock_guard guard(lock_);
  chunks_[index >> kChunkBits].load(std::memory_order_relaxed)[index & (kChunkEntries - 1)].store(nullptr);
  free_.push_back(index);
}

}  // namespace verbatim::mlx5
