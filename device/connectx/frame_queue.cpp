// SPDX-License-Identifier: MIT
#include "device/connectx/frame_queue.h"

#include <utility>

#include "device/connectx/bsf.h"
#include "device/connectx/device_event.h"
#include "engine/elements.h"
#include "engine/frame_checksums.h"
#include "engine/traffic.h"

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
                       const Host& host)
    : spec_(spec),
      ring_(memory_of(spec, ring), doorbell, spec.strides != 0 ? sizeof(SharedNextSegment) : 0),
      cq_(cq),
      host_(host),
      wishes_(spec.wishes) {}

FrameQueue::Need FrameQueue::enter(prm::RqState state, uint32_t number) {
  const std::lock_guard hold(lock_);
  state_ = state;
  number_ = number;
  strides_used_ = 0;
  if (state != prm::RqState::kRdy) send_away();
  if (state == prm::RqState::kRst) ring_.reset();
  return need();
}

void FrameQueue::wish(const engine::FrameWishes& wishes) {
  const std::lock_guard hold(lock_);
  wishes_ = wishes;
}

// With the lock held.
FrameQueue::Need FrameQueue::need() const {
  if (closed_) return Need::kNone;
  if (state_ == prm::RqState::kErr && spec_.flushes) return Need::kPosts;
  return waiting_.empty() ? Need::kNone : Need::kSoon;
}

FrameQueue::Need FrameQueue::take_frame(const engine::ArrivedFrame& frame, const FrameArrival& arrival) {
  const std::lock_guard hold(lock_);
  if (closed_ || state_ != prm::RqState::kRdy) return Need::kNone;
  const bool waited = !waiting_.empty();
  if (waited) let_in(host_.engine.clock().now_ns());
  if (state_ != prm::RqState::kRdy) return need();
  if (!waiting_.empty() || put(frame, arrival) == Put::kNoRequest) keep(frame, arrival);
  // Where frames waited before, it is known already.
  return waited && need() == Need::kSoon ? Need::kNone : need();
}

FrameQueue::Need FrameQueue::look(uint64_t now_ns) {
  const std::lock_guard hold(lock_);
  if (closed_) return Need::kNone;
  if (state_ == prm::RqState::kErr && spec_.flushes) flush();
  return let_in(now_ns);
}

// With the lock held.
FrameQueue::Need FrameQueue::let_in(uint64_t now_ns) {
  while (!waiting_.empty()) {
    const Waiting& first = waiting_.front();
    const auto length = static_cast<uint32_t>(first.bytes.size());
    const engine::ParsedFrame parsed = engine::parse_frame(first.bytes.data(), length);
    const engine::ArrivedFrame frame{first.bytes.data(), length, parsed,
                                     engine::right_checksums(first.bytes.data(), parsed), first.sender};
    const Put done = put(frame, first.arrival);
    if (done == Put::kFailed) break;  // which has sent all of them away
    if (done == Put::kNoRequest) {
      if (now_ns < patience_ns_) break;
      host_.engine.explain(number_, 0, 0, "frames waited in vain for a receive request, and were dropped");
      send_away();
      break;
    }
    host_.waiting_room.give_back(first.cost());
    waiting_.pop_front();
  }
  return need();
}

// With the lock held: the frame waits, or is dropped.
void FrameQueue::keep(const engine::ArrivedFrame& frame, const FrameArrival& arrival) {
  if (spec_.delays_drop) {
    Waiting waiting{{frame.bytes, frame.bytes + frame.length}, frame.sender, arrival};
    if (host_.waiting_room.take(waiting.cost())) {
      if (waiting_.empty()) patience_ns_ = host_.engine.clock().now_ns() + kDelayNs;
      waiting_.push_back(std::move(waiting));
      return;
    }
  }
  engine::count_port(host_.engine.published(), host_.device, engine::PortCount::kNoBuffer);
}

// With the lock held: nothing waits any more.
void FrameQueue::send_away() {
  for (const Waiting& each : waiting_) {
    engine::count_port(host_.engine.published(), host_.device, engine::PortCount::kNoBuffer);
    host_.waiting_room.give_back(each.cost());
  }
  waiting_.clear();
}

// With the lock held.
FrameQueue::Put FrameQueue::put(const engine::ArrivedFrame& frame, const FrameArrival& arrival) {
  engine::FrameWishes wishes = wishes_;
  wishes.looks_into_tunnels = arrival.looks_into_tunnels;
  const engine::ShapedFrame shaped(frame, wishes, arrival.tag);
  engine::FrameFacts facts = shaped.facts();
  facts.hash = arrival.hash.value;
  facts.hash_kind = arrival.hash.kind;
  return spec_.strides != 0 ? put_in_strides(shaped, facts) : put_whole(shaped, facts);
}

FrameQueue::Put FrameQueue::take_request() {
  const char* why = nullptr;
  switch (ring_.take(work_, why)) {
    case engine::ReceiveQueue::Take::kNone:
      return Put::kNoRequest;
    case engine::ReceiveQueue::Take::kBad:
      return fail(engine::Status::kLocalQpOperation, why);
    case engine::ReceiveQueue::Take::kWork:
      break;
  }
  return Put::kDone;
}

FrameQueue::Put FrameQueue::put_whole(const engine::ShapedFrame& shaped, engine::FrameFacts& facts) {
  if (const Put taken = take_request(); taken != Put::kDone) return taken;
  if (work_.capacity() < shaped.bytes())
    return fail(engine::Status::kLocalLength, "the frame does not fit the receive request");
  const engine::Elements memory(host_.engine.keys(), spec_.pd, engine::kLocalWrite, work_.sges,
                                work_.sge_count, this);
  if (const char* why = shaped.store(memory)) return fail(engine::Status::kLocalProtection, why);
  complete(facts, work_.index, shaped.bytes());
  return Put::kDone;
}

// An entry that has room for so many strides. What is left of one that has not is used up by a completion
// that is of no frame.
FrameQueue::Put FrameQueue::open_entry(uint32_t need) {
  if (strides_used_ != 0 && strides_used_ + need > spec_.strides) {
    engine::FrameFacts filler;
    filler.strided = true;
    filler.entry = static_cast<uint16_t>(work_.index);
    complete(filler, strides_used_, kStridesFiller | (spec_.strides - strides_used_) << kStridesUsedShift);
    strides_used_ = 0;
  }
  return strides_used_ != 0 ? Put::kDone : take_request();
}

// Frames lie one behind the other in an entry, each from the beginning of a stride on.
FrameQueue::Put FrameQueue::put_in_strides(const engine::ShapedFrame& shaped, engine::FrameFacts& facts) {
  constexpr uint8_t kPadding[2] = {};
  const uint32_t padding = spec_.pads_strides ? sizeof kPadding : 0;
  const uint32_t need = (padding + shaped.bytes() + spec_.stride_bytes - 1) / spec_.stride_bytes;
  facts.strided = true;
  if (const Put opened = open_entry(need); opened != Put::kDone) return opened;
  facts.entry = static_cast<uint16_t>(work_.index);
  const uint64_t at = uint64_t{strides_used_} * spec_.stride_bytes;
  if (need > spec_.strides || work_.capacity() < at + padding + shaped.bytes())
    return fail(engine::Status::kLocalLength, "the frame does not fit the receive request");
  const engine::Elements memory(host_.engine.keys(), spec_.pd, engine::kLocalWrite, work_.sges,
                                work_.sge_count, this);
  const char* why = padding != 0 ? memory.store(at, kPadding, padding, false) : nullptr;
  if (why == nullptr) why = shaped.store(memory, at + padding);
  if (why != nullptr) return fail(engine::Status::kLocalProtection, why);
  complete(facts, strides_used_, need << kStridesUsedShift | shaped.bytes());
  strides_used_ = (strides_used_ + need) % spec_.strides;
  return Put::kDone;
}

// With the lock held.
void FrameQueue::complete(engine::FrameFacts& facts, uint32_t index, uint32_t bytes) {
  engine::ReceiveCompletion completion;
  completion.index = index;
  completion.opcode = engine::Opcode::kSend;
  completion.bytes = bytes;
  completion.qpn = number_;
  completion.frame = &facts;
  push_receive(cq_.ring, completion, spec_.user_index);
  host_.engine.note_receive();
}

// With the lock held.
FrameQueue::Put FrameQueue::fail(engine::Status status, const char* why) {
  host_.engine.explain(number_, static_cast<int>(status), work_.index, why);
  state_ = prm::RqState::kErr;
  strides_used_ = 0;
  send_away();
  cq_.ring.push_error(kCqeReceiveError, status, 0, number_, spec_.user_index,
                      static_cast<uint16_t>(work_.index));
  host_.events.raise(object_event(prm::Event::kLocalWqCatastrophicError, "RQ", number_));
  return Put::kFailed;
}

void FrameQueue::on_key_error(uint32_t key, engine::DataTransform& transform) {
  if (const auto fault = take_fault(transform)) cq_.ring.push_signature_error(key, *fault);
}

// With the lock held: ends what is posted with errors.
void FrameQueue::flush() {
  const char* why = nullptr;
  while (ring_.take(work_, why) != engine::ReceiveQueue::Take::kNone)
    cq_.ring.push_error(kCqeReceiveError, engine::Status::kFlushed, 0, number_, spec_.user_index,
                        static_cast<uint16_t>(work_.index));
}

void FrameQueue::close() {
  const std::lock_guard hold(lock_);
  send_away();
  closed_ = true;
}

bool FrameQueue::failed() {
  const std::lock_guard hold(lock_);
  return state_ == prm::RqState::kErr;
}

}  // namespace verbatim::connectx
