// SPDX-License-Identifier: MIT
// Asynchronous events: of queues, and of the port.
#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/waiting.h"
#include "lib/ibverbs/xrc.h"

namespace verbatim::verbs {
namespace {

enum class Subject { kCq, kQp, kSrq, kWq, kPort };

Subject subject_of(int type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return Subject::kCq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return Subject::kQp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return Subject::kSrq;
    case IBV_EVENT_WQ_FATAL:
      return Subject::kWq;
    default:
      return Subject::kPort;
  }
}

Event make_event(int type, void* owner) {
  if (owner == nullptr) return {nullptr, nullptr, type};
  switch (subject_of(type)) {
    case Subject::kCq:
      return {owner, &static_cast<CompletionQueue*>(owner)->async_reported, type};
    case Subject::kQp:
      return {owner, &static_cast<QueuePair*>(owner)->async_reported, type};
    case Subject::kSrq:
      return {owner, &static_cast<SharedReceiveQueue*>(owner)->async_reported, type};
    case Subject::kWq:
      return {owner, &static_cast<WorkQueue*>(owner)->async_reported, type};
    case Subject::kPort:
      break;
  }
  return {nullptr, nullptr, type};
}

}  // namespace

void Context::on_async(hw::AsyncEvent event, void* owner) {
  const auto type = static_cast<int>(event);
  if (event == hw::AsyncEvent::kDeviceFatal) failed.store(true, std::memory_order_relaxed);
  if (owner != nullptr && subject_of(type) == Subject::kQp) {
    if (SharedReceiveQueue* served = static_cast<QueuePair*>(owner)->serves) {
      if (type == IBV_EVENT_QP_FATAL)
        async_events.push(make_event(IBV_EVENT_SRQ_ERR, served), false);
      return;
    }
    if (XrcReceiver* receiver = static_cast<QueuePair*>(owner)->receiver) {
      const std::lock_guard guard(receiver->lock);
      for (QueuePair* handle : receiver->handles)
        handle->context->async_events.push(make_event(type, handle), false);
      return;
    }
  }
  async_events.push(make_event(static_cast<int>(event), owner), owner == nullptr);
}

extern "C" void verbatim_tell_of_failed_wq(WorkQueue* wq) {
  wq->context->async_events.push(make_event(IBV_EVENT_WQ_FATAL, wq), false);
}

void Context::on_device_event(const hw::DeviceEvent& event) {
  if (provider->on_device_event != nullptr) provider->on_device_event(*this, event);
}

void Context::on_interrupt(uint32_t vector) {
  if (provider->on_interrupt != nullptr) provider->on_interrupt(*this, vector);
}

}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

int ibv_get_async_event(ibv_context* public_context, ibv_async_event* event) {
  Context* context = still_there(public_context);
  if (context == nullptr) return -1;
  Event taken;
  if (const int error = context->async_events.take(taken)) {
    errno = error;
    return -1;
  }
  event->event_type = static_cast<ibv_event_type>(taken.type);
  switch (subject_of(taken.type)) {
    case Subject::kCq:
      event->element.cq = &static_cast<CompletionQueue*>(taken.subject)->cq;
      break;
    case Subject::kQp:
      event->element.qp = &static_cast<QueuePair*>(taken.subject)->qp;
      break;
    case Subject::kSrq:
      event->element.srq = &static_cast<SharedReceiveQueue*>(taken.subject)->base;
      break;
    case Subject::kWq:
      event->element.wq = &static_cast<WorkQueue*>(taken.subject)->base;
      break;
    case Subject::kPort:
      event->element.port_num = 1;
      break;
  }
  return 0;
}

void ibv_ack_async_event(ibv_async_event* event) {
  switch (subject_of(event->event_type)) {
    case Subject::kCq:
      return acknowledge(*event->element.cq, event->element.cq->async_events_completed, 1);
    case Subject::kQp:
      return acknowledge(*event->element.qp, event->element.qp->events_completed, 1);
    case Subject::kSrq:
      return acknowledge(*event->element.srq, event->element.srq->events_completed, 1);
    case Subject::kWq:
      return acknowledge(*event->element.wq, event->element.wq->events_completed, 1);
    case Subject::kPort:
      return;
  }
}

}  // extern "C"
