// SPDX-License-Identifier: MIT
#include "device/connectx/raw_queue.h"

#include <algorithm>

namespace verbatim::connectx {

namespace {

/// Between two looks at queues where frames wait.
constexpr uint64_t kLookNs = 1'000'000;

using Need = FrameQueue::Need;

}  // namespace

RawQueue::~RawQueue() {
  queue_->close();
  watched_.remove(*queue_);
}

void RawQueue::enter(prm::RqState state, uint32_t number) {
  watched_.remove(*queue_);
  if (queue_->enter(state, number) != Need::kNone) watched_.add(queue_);
}

WatchedQueues::~WatchedQueues() { engine_.clear_alarm(*this); }

void WatchedQueues::add(std::shared_ptr<FrameQueue> queue) {
  const engine::AccessScope scope;
  const uint64_t now_ns = engine_.clock().now_ns();
  const std::lock_guard hold(lock_);
  const Need need = queue->look(now_ns);
  if (need == Need::kNone) return;
  if (std::ranges::find(queues_, queue) == queues_.end()) queues_.push_back(std::move(queue));
  any_ = true;
  if (need == Need::kSoon) engine_.set_alarm(*this, now_ns + kLookNs);
}

void WatchedQueues::remove(const FrameQueue& queue) {
  const std::lock_guard hold(lock_);
  std::erase_if(queues_, [&queue](const auto& each) { return each.get() == &queue; });
  any_ = !queues_.empty();
}

// One that fails while its object is destroyed comes here last. Returns whether frames wait.
bool WatchedQueues::look_at_all() {
  const engine::AccessScope scope;
  const uint64_t now_ns = engine_.clock().now_ns();
  bool waits = false;
  const std::lock_guard hold(lock_);
  std::erase_if(queues_, [&](const auto& queue) {
    const Need need = queue->look(now_ns);
    if (need == Need::kSoon) waits = true;
    return need == Need::kNone;
  });
  any_ = !queues_.empty();
  return waits;
}

void WatchedQueues::ring(uint64_t now_ns) {
  if (look_at_all()) engine_.set_alarm(*this, now_ns + kLookNs);
}

void SpreadTarget::follow(std::shared_ptr<const Plan> plan) {
  const std::lock_guard hold(lock_);
  plan_ = std::move(plan);
}

void SpreadTarget::take_frame(const engine::ArrivedFrame& frame, uint32_t tag) {
  std::shared_ptr<const Plan> plan;
  {
    const std::lock_guard hold(lock_);
    plan = plan_;
  }
  if (plan->queues.empty()) return;
  const FrameArrival arrival{tag, plan->hash.of(frame.parsed.headers), plan->hash.looks_into_tunnels()};
  const auto& queue = plan->queues[arrival.hash.value % plan->queues.size()];
  if (queue && queue->take_frame(frame, arrival) != Need::kNone) watched_.add(queue);
}

}  // namespace verbatim::connectx
