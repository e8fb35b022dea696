// SPDX-License-Identifier: MIT
#include "device/connectx/event_router.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "device/connectx/device_event.h"
#include "device/connectx/objects.h"

namespace verbatim::connectx {

namespace {

constexpr uint32_t kIndexMask = 0xffffff, kNumberShift = 24;

Error nobodys(uint32_t eqn) {
  return {ENOENT, "the context has no event queue of number " + std::to_string(eqn)};
}

bool takes(const EventRouter::Spec& spec, uint16_t type) {
  return type < 256 && (spec.events[type / 64] >> (type % 64) & 1) != 0;
}

}  // namespace

EventRouter::Queue* EventRouter::own(uint16_t uid, uint32_t eqn) const {
  Queue* queue = find(eqn);
  return queue != nullptr && queue->spec.maker == uid ? queue : nullptr;
}

Expected<uint32_t> EventRouter::add(const Spec& spec) {
  const std::lock_guard hold(lock_);
  constexpr uint32_t kCount = kLast - kFirstOfPrograms + 1;
  // Round and round, so that a number rests before it is given out again.
  for (uint32_t tried = 0; tried < kCount; tried++) {
    const uint32_t eqn = next_;
    next_ = next_ == kLast ? kFirstOfPrograms : next_ + 1;
    if (queues_[eqn] != nullptr) continue;
    queues_[eqn] = std::make_unique<Queue>(spec);
    return eqn;
  }
  return Error{ENOMEM, "all event queues of the device are in use"};
}

Outcome EventRouter::remove(uint16_t uid, uint32_t eqn) {
  const std::lock_guard hold(lock_);
  const Queue* queue = own(uid, eqn);
  if (queue == nullptr) return nobodys(eqn);
  if (queue->users != 0) return Error{EBUSY, "completion queues still name the event queue"};
  queues_[eqn].reset();
  return Done{};
}

Expected<EventRouter::Facts> EventRouter::query(uint16_t uid, uint32_t eqn) const {
  const std::lock_guard hold(lock_);
  const Queue* queue = own(uid, eqn);
  if (queue == nullptr) return nobodys(eqn);
  const EventRing& ring = queue->ring;
  return Facts{queue->spec, ring.consumed(), ring.produced(), ring.armed(), ring.failed()};
}

bool EventRouter::has_some_of(uint16_t uid) const {
  const std::lock_guard hold(lock_);
  return std::ranges::any_of(queues_, [uid](const auto& queue) { return queue && queue->spec.maker == uid; });
}

Expected<uint32_t> EventRouter::of_vector(uint32_t vector) const {
  if (vector < vectors_) return vector + 1;
  return Error{EINVAL, "the device has " + std::to_string(vectors_) + " completion vectors"};
}

Outcome EventRouter::hold(uint16_t uid, uint32_t eqn) {
  if (eqn != 0 && eqn <= vectors_) return Done{};
  const std::lock_guard hold_queues(lock_);
  Queue* queue = own(uid, eqn);
  if (queue == nullptr) return nobodys(eqn);
  queue->users++;
  return Done{};
}

void EventRouter::let_go(uint32_t eqn) {
  const std::lock_guard hold(lock_);
  if (Queue* queue = find(eqn)) queue->users--;
}

void EventRouter::ring(uint32_t uar, uint32_t index_and_number, bool arm) {
  const std::lock_guard hold(lock_);
  const uint32_t named = index_and_number >> kNumberShift;
  for (uint32_t eqn = kFirstOfPrograms; eqn <= kLast; eqn++) {
    Queue* queue = queues_[eqn].get();
    if (queue == nullptr || queue->spec.uar != uar) continue;
    bool due = false;
    if (eqn == named)
      due = queue->ring.consume(index_and_number & kIndexMask, arm);
    else if (arm && !queue->ring.armed())
      due = queue->ring.arm();
    if (due) host_.on_interrupt(queue->spec.vector);
  }
}

void EventRouter::on_completion(hw::Cq& face) {
  const hw::DeviceEvent event = completion_event(face.number);
  {
    const std::lock_guard hold(lock_);
    Queue* queue = find(static_cast<CqObject&>(face).eqn);
    if (queue != nullptr && queue->ring.push(event.entry)) host_.on_interrupt(queue->spec.vector);
  }
  host_.on_device_event(event);
}

void EventRouter::on_async(hw::AsyncEvent what, void* owner) {
  const std::optional<prm::Event> type = event_type(what);
  if (!type) return;
  const bool of_srq = what == hw::AsyncEvent::kSrqError || what == hw::AsyncEvent::kSrqLimitReached;
  if (what == hw::AsyncEvent::kCqError) {
    raise(object_event(*type, "CQ", static_cast<hw::Cq*>(owner)->number));
  } else if (of_srq) {
    const auto* srq = static_cast<SrqObject*>(static_cast<hw::Srq*>(owner));
    raise(object_event(*type, srq->kind, srq->number));
  } else {
    const auto* qp = static_cast<QpObject*>(static_cast<hw::Qp*>(owner));
    raise(object_event(*type, qp->type == hw::QpType::kDct ? "DCT" : "QP", qp->number));
  }
}

void EventRouter::raise(const hw::DeviceEvent& event) {
  {
    const std::lock_guard hold(lock_);
    for (uint32_t eqn = kFirstOfPrograms; eqn <= kLast; eqn++) {
      Queue* queue = queues_[eqn].get();
      if (queue != nullptr && takes(queue->spec, event.type) && queue->ring.push(event.entry))
        host_.on_interrupt(queue->spec.vector);
    }
  }
  host_.on_device_event(event);
}

}  // namespace verbatim::connectx
