// SPDX-License-Identifier: MIT
// Shared receive queues of XRC domains, and the responder's way to the one that a request names.
#include "engine/shared_queues.h"

#include <algorithm>
#include <mutex>

#include "engine/engine.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

void SharedQueues::add(uint32_t number, const SharedQueue& queue) {
  const std::lock_guard<SpinLock> hold(lock_);
  queues_[number] = queue;
}

void SharedQueues::remove(uint32_t number) {
  const std::lock_guard<SpinLock> hold(lock_);
  queues_.erase(number);
}

bool SharedQueues::find(uint32_t number, SharedQueue& queue) const {
  const std::lock_guard<SpinLock> hold(lock_);
  const auto found = queues_.find(number);
  if (found == queues_.end()) return false;
  queue = found->second;
  return true;
}

Expected<uint32_t> Engine::add_shared_queue(const SharedQueue& queue) {
  Expected<uint32_t> number = reserve_number();
  if (number) shared_queues_.add(*number, queue);
  return number;
}

void Engine::remove_shared_queue(uint32_t number) {
  shared_queues_.remove(number);
  AccessGuard::wait();  // whoever has found it has told its responder since
  {
    const std::lock_guard<std::mutex> hold(xrc_lock_);
    for (QueuePair* qp : xrc_receivers_) qp->responder().leave_shared_queue(number);
  }
  xrc_guests_.leave_shared_queue(number);
  release_number(number);
}

// The request names the queue that it is for, which may be another process's.
Responder::Verdict Responder::enter_shared_queue(const wire::Segment& segment) {
  if (segment.srqn == srqn_ && srqn_ != 0) [[likely]]
    return Verdict::kDone;
  if (message_.active)
    return refuse_in_turn(wire::kNakInvalidRequest,
                          "a message goes on for another shared receive queue than it began for");
  SharedQueue queue;
  wire::Channel* elsewhere = nullptr;
  if (const char* why = find_shared_queue(segment.srqn, queue)) {
    elsewhere = is_guest_ ? nullptr : engine_.elsewhere(segment.srqn);
    if (elsewhere && synchronous_)
      return refuse(wire::kNakInvalidRequest,
                    "a sender in the receiver's process cannot reach queues of other processes");
    if (!elsewhere) return refuse_in_turn(wire::kNakInvalidRequest, why);
  }
  if (elsewhere != relay_.channel && has_unanswered()) return postpone();
  // A receive request that was kept for a message that comes again is not for this one.
  abort_receive();
  if (elsewhere != relay_.channel) relay_ = {elsewhere, expected_psn_, false};
  landing_ = queue.landing;
  srqn_ = segment.srqn;
  return Verdict::kDone;
}

const char* Responder::find_shared_queue(uint32_t number, SharedQueue& queue) const {
  if (!engine_.shared_queues().find(number, queue))
    return "no XRC shared receive queue of this process has that number";
  if (queue.xrc_domain != qp_.spec().xrc_domain)
    return "the shared receive queue belongs to another XRC domain than the queue pair";
  return nullptr;
}

void Responder::leave_shared_queue(uint32_t number) {
  const std::lock_guard<SpinLock> hold(lock_);
  if (srqn_ != number) return;
  message_ = Progress{};
  work_held_ = false;
  landing_ = {};
  srqn_ = 0;
}

}  // namespace verbatim::engine
