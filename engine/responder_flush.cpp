// SPDX-License-Identifier: MIT
// What is left of a responder whose queue pair is in the error state.
#include <mutex>

#include "engine/engine.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

namespace {
constexpr uint32_t kFlushesPerRun = 65536;  ///< receive requests flushed in one go
}  // namespace

void Responder::flush() {
  if (flushed_) return;
  flushed_ = true;
  if (message_.has_work || work_held_) {
    ReceiveCompletion completion;
    completion.index = work_->index;
    completion.status = Status::kFlushed;
    complete(completion);
  }
  message_ = Progress{};
  work_held_ = false;
  // What was carried out before a refusal is still answered, before the refusal.
  if (!ack_due_ || (due_syndrome_ & 0x60) == 0) responses_.clear();
  if (qp_.spec().shared_receive) {
    if (qp_.spec().events) qp_.spec().events->on_event(AsyncEvent::kQpLastWqeReached);
    return;
  }
  if (!qp_.spec().receive) return;
  engine_.note_errored(qp_);
}

void Responder::flush_posted() {
  std::lock_guard<SpinLock> hold(lock_);
  if (qp_.state() != QpState::kError || qp_.spec().shared_receive || !qp_.spec().receive) return;
  if (!work_) work_ = std::make_unique<ReceiveWork>();
  const char* why = nullptr;
  for (uint32_t i = 0;
       i < kFlushesPerRun && qp_.spec().receive->take(*work_, why) != ReceiveQueue::Take::kNone; i++) {
    ReceiveCompletion completion;
    completion.index = work_->index;
    completion.status = Status::kFlushed;
    complete(completion);
  }
}

}  // namespace verbatim::engine
