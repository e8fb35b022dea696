// SPDX-License-Identifier: MIT
#include "device/connectx/operation_counters.h"

#include <bit>
#include <cerrno>

#include "device/connectx/connectx_hca.h"

namespace verbatim::connectx {

using engine::Opcode;

OperationCounters::~OperationCounters() {
  for (auto& counter : by_operation_)
    if (counter != nullptr) counter.load()->users--;
}

Outcome OperationCounters::attach(CounterObject& counter, uint32_t operations) {
  for (size_t i = 0; i < by_operation_.size(); i++)
    if ((operations >> i & 1) != 0 && by_operation_[i] != nullptr)
      return Error{EBUSY, "one of the operations is counted already"};
  for (size_t i = 0; i < by_operation_.size(); i++) {
    if ((operations >> i & 1) == 0) continue;
    by_operation_[i] = &counter;
    counter.users++;
  }
  return Done{};
}

void OperationCounters::count(hw::CountedOperation operation, bool succeeded, uint64_t bytes) {
  CounterObject* counter = by_operation_[static_cast<size_t>(std::countr_zero<uint32_t>(operation))];
  if (!counter) return;
  if (succeeded)
    counter->succeeded += counter->of_bytes ? bytes : 1;
  else
    counter->failed++;
}

void OperationCounters::count_sent(const engine::SendCompletion& done) {
  const bool succeeded = done.status == engine::Status::kSuccess;
  switch (done.opcode) {
    case Opcode::kSend:
    case Opcode::kSendImmediate:
    case Opcode::kSendInvalidate:
    case Opcode::kSegmentedSend:
      return count(hw::kCountSends, succeeded, done.bytes);
    case Opcode::kWrite:
    case Opcode::kWriteImmediate:
      return count(hw::kCountWrites, succeeded, done.bytes);
    case Opcode::kRead:
      return count(hw::kCountReads, succeeded, done.bytes);
    case Opcode::kCompareSwap:
    case Opcode::kFetchAdd:
    case Opcode::kAtomicWrite:
    case Opcode::kFlush:
    case Opcode::kNop:
    case Opcode::kKeyUpdate:
    case Opcode::kSignatureValue:
    case Opcode::kMemoryCopy:
    case Opcode::kTagList:
      return;
  }
}

Expected<hw::CompletionCounter*> ConnectxHca::create_completion_counter(bool of_bytes) {
  if (counters_.fetch_add(1) >= limits_.max_completion_counters) {
    counters_--;
    return Error{ENOMEM, "all completion counters of the device are in use"};
  }
  auto* counter = new CounterObject;
  counter->number = next_counter_.fetch_add(1);
  counter->of_bytes = of_bytes;
  const std::lock_guard hold(lock_);
  counter_list_.add(counter);
  return static_cast<hw::CompletionCounter*>(counter);
}

Outcome ConnectxHca::destroy_completion_counter(hw::CompletionCounter* face) {
  auto* counter = static_cast<CounterObject*>(face);
  if (counter->users != 0) return Error{EBUSY, "queue pairs still count with the completion counter"};
  {
    const std::lock_guard hold(lock_);
    counter_list_.remove(counter);
  }
  delete counter;
  counters_--;
  return Done{};
}

Outcome ConnectxHca::attach_completion_counter(hw::Qp* face, hw::CompletionCounter* counter,
                                               uint32_t operations) {
  auto* qp = static_cast<QpObject*>(face);
  if (operations == 0) return Error{EINVAL, "there is no operation to count"};
  if ((operations & ~limits_.counted_operations) != 0)
    return Error{EOPNOTSUPP, "the device does not count one of the operations"};
  const hw::QpType type = qp->type;
  if (type != hw::QpType::kRc && type != hw::QpType::kUc && type != hw::QpType::kUd)
    return Error{EOPNOTSUPP, "completion counters are for queue pairs of type RC, UC and UD"};
  const hw::QpState state = qp->queue_pair->state();
  if (state != hw::QpState::kReset && state != hw::QpState::kInit)
    return Error{EINVAL, "completion counters are attached in RESET and INIT only"};
  const std::lock_guard hold(lock_);
  if (Outcome attached = qp->attach(*static_cast<CounterObject*>(counter), operations); !attached)
    return attached;
  qp->queue_pair->tell_of_remote(
      ((operations & hw::kCountRemoteReads) != 0 ? static_cast<uint32_t>(engine::kRemoteRead) : 0) |
      ((operations & hw::kCountRemoteWrites) != 0 ? static_cast<uint32_t>(engine::kRemoteWrite) : 0));
  return Done{};
}

}  // namespace verbatim::connectx
