// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>

#include "device/connectx/linked_list.h"
#include "device/hw/hca.h"
#include "engine/work.h"

namespace verbatim::connectx {

struct CounterObject : hw::CompletionCounter, Linked<CounterObject> {
  bool of_bytes = false;
  std::atomic<uint32_t> users{0};
};

/// The completion counters of one queue pair, by operation. Thread safe.
class OperationCounters {
 public:
  OperationCounters() = default;
  ~OperationCounters();
  OperationCounters(const OperationCounters&) = delete;
  OperationCounters& operator=(const OperationCounters&) = delete;

  /// EBUSY: one of the operations has a counter; then nothing changes. Callers exclude each other.
  Outcome attach(CounterObject& counter, uint32_t operations);
  void count(hw::CountedOperation operation, bool succeeded, uint64_t bytes);
  /// What the send queue has ended.
  void count_sent(const engine::SendCompletion& done);

 private:
  std::array<std::atomic<CounterObject*>, hw::kCountedOperations> by_operation_{};
};

}  // namespace verbatim::connectx
