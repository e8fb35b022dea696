// SPDX-License-Identifier: MIT
#include "device/connectx/raw_queue.h"

#include "base/fault_copy.h"

namespace verbatim::connectx {

RawQueue::~RawQueue() { failed_.remove(*this); }

void RawQueue::enter(prm::RqState state, uint32_t number) {
  number_ = number;
  failed_.remove(*this);
  if (state == prm::RqState::kRst) taken_ = 0;
  if (state == prm::RqState::kErr && spec_.flushes) failed_.add(*this);
}

void RawQueue::flush() {
  uint32_t word = 0;
  if (!fault_copy(&word, &doorbell_[kReceiveDoorbell], sizeof word)) return;
  const uint32_t ready = (Be32::from_raw(word) - taken_) & 0xffff;
  if (ready > 1u << spec_.log_entries) return;
  for (uint32_t left = ready; left > 0; left--)
    cq_.ring.push_error(kCqeReceiveError, engine::Status::kFlushed, 0, number_, spec_.user_index,
                        static_cast<uint16_t>(taken_++));
}

void FailedQueues::add(RawQueue& queue) {
  const std::lock_guard hold(lock_);
  queues_.push_back(&queue);
  any_ = true;
  queue.flush();
}

void FailedQueues::remove(RawQueue& queue) {
  const std::lock_guard hold(lock_);
  std::erase(queues_, &queue);
  any_ = !queues_.empty();
}

void FailedQueues::flush_all() {
  const std::lock_guard hold(lock_);
  for (RawQueue* queue : queues_) queue->flush();
}

}  // namespace verbatim::connectx
