// SPDX-License-Identifier: MIT
// The requester's segments: what a message becomes on the channel, and what comes of each.
#include <algorithm>

#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::Operation;
using wire::Segment;
using wire::SendResult;

namespace {

Operation operation_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSend:
    case Opcode::kSendImmediate:
    case Opcode::kSendInvalidate:
    case Opcode::kSegmentedSend:
      return Operation::kSend;
    case Opcode::kWrite:
    case Opcode::kWriteImmediate:
      return Operation::kWrite;
    case Opcode::kRead:
      return Operation::kReadRequest;
    case Opcode::kCompareSwap:
      return Operation::kCompareSwap;
    case Opcode::kFetchAdd:
      return Operation::kFetchAdd;
    case Opcode::kAtomicWrite:
      return Operation::kAtomicWrite;
    case Opcode::kFlush:
      return Operation::kFlush;
    case Opcode::kNop:
    case Opcode::kKeyUpdate:
    case Opcode::kSignatureValue:
    case Opcode::kMemoryCopy:
    case Opcode::kTagList:
      break;
  }
  return Operation::kSend;
}

}  // namespace

uint32_t slice(const wire::Piece* pieces, uint32_t count, uint64_t offset, uint64_t length,
               wire::Piece* out) {
  uint32_t made = 0;
  for (uint32_t i = 0; i < count && length > 0; i++) {
    if (offset >= pieces[i].length) {
      offset -= pieces[i].length;
      continue;
    }
    const uint64_t take = std::min<uint64_t>(pieces[i].length - offset, length);
    out[made++] = {static_cast<char*>(pieces[i].base) + offset, take};
    length -= take;
    offset = 0;
  }
  return made;
}

// Somebody waits for this message to end, or soon will for room in the window or for another target.
bool Requester::wants_acknowledgement(const Message& message) const {
  return message.work.signaled || dynamic_ || qp_.state() != QpState::kRts ||
         (window_count_ & ((window_max_ - 1) >> 1)) == 0;
}

Segment Requester::make_segment(const Message& message, uint32_t chunk) const {
  const SendWork& work = message.work;
  const bool last = awaits_response(work.opcode) || sent_bytes_ + chunk == message.length;
  Segment segment;
  segment.operation = operation_of(work.opcode);
  segment.transport = qp_.transport();
  segment.flags = (sent_bytes_ == 0 ? wire::kFirst : 0) | (last ? wire::kLast : 0);
  if (last && wants_acknowledgement(message)) segment.flags |= wire::kAckRequest;
  if (last && work.solicited) segment.flags |= wire::kSolicited;
  if (last && (work.opcode == Opcode::kSendImmediate || work.opcode == Opcode::kWriteImmediate))
    segment.flags |= wire::kImmediate;
  if (last && work.opcode == Opcode::kSendInvalidate) segment.flags |= wire::kInvalidate;
  if (message.placed) segment.flags |= wire::kPlaced;
  if (qp_.has_alternate()) [[unlikely]]
    segment.flags |= wire::kMayMigrate;
  segment.service_level = qp_.attributes().path.service_level;
  segment.dest_qpn = peer_.place.qpn;
  segment.src_qpn = qp_.number();
  segment.pkey = peer_.place.pkey;
  segment.psn = next_psn_;
  segment.base_psn = message.placed || sent_bytes_ == 0 ? ring_psn_ : next_psn_;
  segment.packets =
      awaits_response(work.opcode) ? message.packets : packets_of(chunk, qp_.attributes().path_mtu);
  segment.path_mtu = qp_.attributes().path_mtu;
  segment.length = sends_data(work.opcode) ? chunk : 0;
  segment.immediate = work.immediate;
  segment.total_length = message.length;
  if (work.opcode >= Opcode::kWrite) {  // sends have no address
    segment.remote_address = work.remote_address;
    segment.rkey = work.rkey;
    segment.swap_or_add = work.swap_or_add;
    segment.compare = work.compare;
  }
  if (dynamic_) {
    if (window_count_ == 0) segment.flags |= wire::kOpens;
    segment.service_level = work.destination.service_level;
    segment.access_key = peer_.access_key;
    segment.connection = peer_.connection;
  }
  if (work.opcode == Opcode::kFlush) [[unlikely]]
    segment.total_length = work.reach;
  if (xrc_) [[unlikely]]
    segment.srqn = work.destination.srqn;
  if (is_wire_) [[unlikely]]
    prepare_for_wire(message, chunk, segment);
  else if (!dynamic_ && engine_.fabric().captured()) [[unlikely]]
    qp_.address(segment);
  return segment;
}

Requester::Step Requester::send_pieces(Message& message) {
  const bool may_pull = reliable_ && message.work.opcode != Opcode::kAtomicWrite;
  const bool whole = message.placed || !sends_data(message.work.opcode);
  if (message.scattered && !whole) [[unlikely]]
    return send_scattered(message, message.length - sent_bytes_);
  if (whole) return submit(message, message.length, nullptr, 0, may_pull);
  const uint32_t left = message.length - sent_bytes_;
  const uint32_t chunk =
      left <= wire::Channel::kPayloadMin ? left : std::min(left, channel_->payload_max(may_pull));
  if (chunk == message.length) return submit(message, chunk, message.pieces, message.count, may_pull);
  wire::Piece pieces[kSgeMax];
  const uint32_t count = slice(message.pieces, message.count, sent_bytes_, chunk, pieces);
  return submit(message, chunk, pieces, count, may_pull);
}

Requester::Step Requester::submit(Message& message, uint32_t chunk, const wire::Piece* pieces, uint32_t count,
                                  bool may_pull) {
  Segment segment = make_segment(message, chunk);
  if (reliable_ && qp_.responder().may_owe()) add_acknowledgement(segment);
  Segment answer;
  const uint32_t room = engine_.room_epoch();
  const SendResult result = channel_->send(segment, pieces, count, may_pull, &answer);
  if (result == SendResult::kBusy) {
    if (segment.has(wire::kAcknowledges)) qp_.responder().give_back_acknowledgement();
    engine_.wait_for_room(qp_, room);
    return Step::kStop;
  }
  if (is_wire_) [[unlikely]] {
    count_sent(segment, qp_.frame_bytes());
    return after_wire_send(result, message, segment, chunk);
  }
  return after_send(result, message, segment, answer);
}

// What this end has received is acknowledged no later than by what it sends next: a peer that waits for an
// answer finds its own request completed when the answer is there.
void Requester::add_acknowledgement(Segment& segment) {
  if (is_wire_) {
    qp_.responder().answer_along();
  } else if (segment.has(wire::kImmediate) || segment.has(wire::kInvalidate)) {
    (void)qp_.responder().send_owed();  // without room it stays owed
  } else if (qp_.responder().take_acknowledgement(segment.ack_psn, segment.msn)) {
    segment.flags |= wire::kAcknowledges;
  }
}

Requester::Step Requester::after_send(SendResult result, Message& message, const Segment& segment,
                                      const Segment& answer) {
  switch (result) {
    case SendResult::kSourceFault:
      // What was sent of the message stays unfinished at the responder; the queue pair ends here anyway.
      return fail_local(message.index, message.next_index, message.work, Status::kLocalProtection,
                        "memory of the work request is not mapped");
    case SendResult::kUnreachable:
      lose_channel();
      if (reliable_) {
        note_lost();
        return Step::kStop;
      }
      break;
    case SendResult::kBusy:
    case SendResult::kAccepted:
    case SendResult::kAnswered:
    case SendResult::kNoAnswer:
      break;
  }
  peer_.knows = true;
  if (reliable_ && segment.has(wire::kFirst)) record(message, false);
  next_psn_ = ring_psn_ = wire::psn_add(segment.psn, segment.packets);
  sent_bytes_ += segment.length;
  in_message_ = !segment.has(wire::kLast);
  begun_opcode_ = message.work.opcode;
  begun_bytes_ = message.length;
  budget_bytes_ -= std::min<uint64_t>(budget_bytes_, segment.length);
  if (!message.placed) charge(segment.length);
  if (!in_message_) {
    if (!reliable_) return after_message(message);
    index_ = message.next_index;
    sent_bytes_ = 0;
  }
  if (result == SendResult::kAnswered) {
    handle_reply(answer, nullptr);
  } else if (reliable_ && result == SendResult::kNoAnswer) {
    rewind(segment.psn);
    note_lost();
  } else if (reliable_) {
    watch(0);
  }
  return Step::kAgain;
}

void Requester::record(const Message& message, bool done) {
  Outstanding& entry = window_[(window_head_ + window_count_) & window_mask_];
  entry = {
      message.index,       message.next_index,    next_psn_, ring_psn_, message.packets, message.length, 0,
      message.work.opcode, message.work.signaled, done};
  window_count_++;
  if (awaits_response(entry.opcode)) reads_++;
}

}  // namespace verbatim::engine
