// SPDX-License-Identifier: MIT
#include <algorithm>
#include <new>

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {

namespace {

/// Of the contexts that are open. Never freed: other destructors of the process may still close one.
struct Tables {
  std::mutex lock;
  std::vector<QueuePairTable*> all;
};

Tables& tables() {
  static Tables* const kept = new Tables;
  return *kept;
}

}  // namespace

QueuePairTable::QueuePairTable() {
  const std::lock_guard guard(tables().lock);
  tables().all.push_back(this);
}

bool QueuePairTable::any_holds_number(uint32_t qpn) {
  const std::lock_guard guard(tables().lock);
  return std::any_of(tables().all.begin(), tables().all.end(),
                     [qpn](QueuePairTable* each) { return each->holds_number(qpn); });
}

QueuePairTable::~QueuePairTable() {
  {
    const std::lock_guard guard(tables().lock);
    std::erase(tables().all, this);
  }
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
