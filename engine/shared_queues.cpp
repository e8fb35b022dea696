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
  release_number(number);
}

// The request names the queue that it is for. Nullptr, or why it cannot be for that.
const char* Responder::enter_shared_queue(const wire::Segment& segment) {
  if (segment.srqn == srqn_) [[likely]]
    return nullptr;
  if (message_.active) return "a message goes on for another shared receive queue than it began for";
  SharedQueue queue;
  if (const char* why = find_shared_queue(segment.srqn, queue)) return why;
  // A receive request that was kept for a message that comes again is not for this one.
  abort_receive();
  landing_ = queue.landing;
  srqn_ = segment.srqn;
  return nullptr;
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
