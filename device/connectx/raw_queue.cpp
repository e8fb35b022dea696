// SPDX-License-Identifier: MIT
#include "device/connectx/raw_queue.h"

#include <algorithm>

#include "device/connectx/bsf.h"
#include "device/connectx/device_event.h"
#include "engine/elements.h"
#include "engine/frame_shape.h"

namespace verbatim::connectx {

namespace {

hw::QueueMemory memory_of(const prm::RawQueueSpec& spec, std::byte* ring) {
  hw::QueueMemory memory{ring, spec.bytes, 1u << spec.log_entries,
                         static_cast<uint32_t>(spec.bytes >> spec.log_entries)};
  memory.revocable = true;
  return memory;
}

}  // namespace

FrameQueue::FrameQueue(const prm::RawQueueSpec& spec, std::byte* ring, const uint32_t* doorbell, CqObject& cq,
                       engine::Engine& engine, EventRouter& events)
    : spec_(spec),
      ring_(memory_of(spec, ring), doorbell),
      cq_(cq),
      engine_(engine),
      events_(events),
      wishes_(spec.wishes) {}

bool FrameQueue::enter(prm::RqState state, uint32_t number) {
  const std::lock_guard hold(lock_);
  state_ = state;
  number_ = number;
  if (state == prm::RqState::kRst) ring_.reset();
  return state == prm::RqState::kErr && spec_.flushes;
}

void FrameQueue::wish(const engine::FrameWishes& wishes) {
  const std::lock_guard hold(lock_);
  wishes_ = wishes;
}

bool FrameQueue::take_frame(const engine::ArrivedFrame& frame, uint32_t tag, uint32_t hash) {
  const std::lock_guard hold(lock_);
  if (closed_ || state_ != prm::RqState::kRdy || spec_.strides) return false;
  const char* why = nullptr;
  switch (ring_.take(work_, why)) {
    case engine::ReceiveQueue::Take::kNone:
      return false;
    case engine::ReceiveQueue::Take::kBad:
      return fail(engine::Status::kLocalQpOperation, why);
    case engine::ReceiveQueue::Take::kWork:
      break;
  }
  const engine::ShapedFrame shaped(frame, wishes_, tag);
  if (work_.capacity() < shaped.bytes())
    return fail(engine::Status::kLocalLength, "the frame does not fit the receive request");
  const engine::Elements memory(engine_.keys(), spec_.pd, engine::kLocalWrite, work_.sges, work_.sge_count,
                                this);
  if ((why = shaped.store(memory)) != nullptr) return fail(engine::Status::kLocalProtection, why);
  engine::FrameFacts facts = shaped.facts();
  facts.hash = hash;
  engine::ReceiveCompletion completion;
  completion.index = work_.index;
  completion.opcode = engine::Opcode::kSend;
  completion.bytes = shaped.bytes();
  completion.qpn = number_;
  completion.frame = &facts;
  push_receive(cq_.ring, completion, spec_.user_index);
  engine_.note_receive();
  return false;
}

// With the lock held.
bool FrameQueue::fail(engine::Status status, const char* why) {
  engine_.explain(number_, static_cast<int>(status), work_.index, why);
  state_ = prm::RqState::kErr;
  cq_.ring.push_error(kCqeReceiveError, status, 0, number_, spec_.user_index,
                      static_cast<uint16_t>(work_.index));
  events_.raise(object_event(prm::Event::kLocalWqCatastrophicError, "RQ", number_));
  return spec_.flushes;
}

void FrameQueue::on_key_error(uint32_t key, engine::DataTransform& transform) {
  if (const auto fault = take_fault(transform)) cq_.ring.push_signature_error(key, *fault);
}

void FrameQueue::flush() {
  const std::lock_guard hold(lock_);
  if (closed_ || state_ != prm::RqState::kErr) return;
  const char* why = nullptr;
  while (ring_.take(work_, why) != engine::ReceiveQueue::Take::kNone)
    cq_.ring.push_error(kCqeReceiveError, engine::Status::kFlushed, 0, number_, spec_.user_index,
                        static_cast<uint16_t>(work_.index));
}

void FrameQueue::close() {
  const std::lock_guard hold(lock_);
  closed_ = true;
}

bool FrameQueue::closed() {
  const std::lock_guard hold(lock_);
  return closed_;
}

bool FrameQueue::failed() {
  const std::lock_guard hold(lock_);
  return state_ == prm::RqState::kErr;
}

RawQueue::~RawQueue() {
  queue_->close();
  failed_.remove(*queue_);
}

void RawQueue::enter(prm::RqState state, uint32_t number) {
  failed_.remove(*queue_);
  if (queue_->enter(state, number)) failed_.add(queue_);
}

void FailedQueues::add(std::shared_ptr<FrameQueue> queue) {
  const std::lock_guard hold(lock_);
  queue->flush();
  queues_.push_back(std::move(queue));
  any_ = true;
}

void FailedQueues::remove(const FrameQueue& queue) {
  const std::lock_guard hold(lock_);
  std::erase_if(queues_, [&queue](const auto& each) { return each.get() == &queue; });
  any_ = !queues_.empty();
}

// One that fails while its object is destroyed comes here last.
void FailedQueues::flush_all() {
  const std::lock_guard hold(lock_);
  std::erase_if(queues_, [](const auto& each) { return each->closed(); });
  any_ = !queues_.empty();
  for (const auto& queue : queues_) queue->flush();
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
  const uint32_t hash = plan->hash.of(frame.parsed.headers);
  const auto& queue = plan->queues[hash % plan->queues.size()];
  if (queue && queue->take_frame(frame, tag, hash)) failed_.add(queue);
}

}  // namespace verbatim::connectx
