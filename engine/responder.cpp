// SPDX-License-Identifier: MIT
#include "engine/responder.h"

#include <algorithm>
#include <mutex>

#include "engine/elements.h"
#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::CopyResult;
using wire::Operation;
using wire::Segment;
using wire::SendResult;

namespace {

bool can_receive(QpState state) {
  switch (state) {
    case QpState::kRtr:
    case QpState::kRts:
    case QpState::kSqd:
    case QpState::kSqe:
      return true;
    case QpState::kReset:
    case QpState::kInit:
    case QpState::kError:
      return false;
  }
  return false;
}

}  // namespace

Responder::Responder(Engine& engine, QueuePair& qp, bool dynamic)
    : engine_(engine),
      qp_(qp),
      reliable_(is_reliable(qp.type())),
      dynamic_(dynamic),
      xrc_(qp.type() == QpType::kXrcReceive),
      landing_{qp.spec().domain, qp.spec().receive, qp.spec().sink},
      is_guest_(qp.spec().guest_of != 0),
      told_psn_(dynamic ? own_psn_ : qp.published().expected_psn),
      way_back_(dynamic ? std::make_unique<WayBack>() : nullptr) {}

void Responder::connect(uint32_t expected_psn) {
  expected_psn_ = expected_psn;
  told_psn_.store(expected_psn, std::memory_order_release);
  msn_ = 0;
  nak_sent_ = false;
  ack_due_ = false;
  due_syndrome_ = wire::kAckOk;
  message_ = Progress{};
  responses_.clear();
  answered_count_ = unanswered_ = 0;
}

void Responder::aim(uint32_t peer_qpn) {
  peer_qpn_ = peer_qpn;
  if (!is_wire_) return;
  is_wire_ = false;
  reply_channel_ = nullptr;
}

void Responder::reset() {
  connect(0);
  work_held_ = flushed_ = is_wire_ = false;
  reply_channel_ = nullptr;
  peer_qpn_ = kNobody;
  if (xrc_) {
    end_relay();
    landing_ = {};
    srqn_ = 0;
  }
}

Segment Responder::reply_to(uint32_t psn, uint8_t syndrome) const {
  Segment reply;
  reply.operation = Operation::kAck;
  reply.transport = qp_.transport();
  reply.flags = wire::kFirst | wire::kLast;
  reply.dest_qpn = peer_qpn_;
  reply.src_qpn = qp_.number();
  reply.psn = psn;
  reply.path_mtu = qp_.attributes().path_mtu;
  reply.syndrome = syndrome;
  reply.msn = msn_;
  if (qp_.has_alternate()) [[unlikely]]
    reply.flags |= wire::kMayMigrate;
  if (dynamic_) {
    reply.access_key = 0;
    reply.connection = connection_;
  }
  if (xrc_) [[unlikely]] {
    reply.srqn = 0;
    if (is_guest_ && message_.active) reply.flags = wire::kLast;  // it is not the message's beginning
  }
  if (is_wire_) [[unlikely]]
    address_back(reply);
  else if (!dynamic_ && !is_guest_ && engine_.fabric().captured()) [[unlikely]]
    qp_.address(reply);
  return reply;
}

bool Responder::on_request(wire::Channel& from, const Segment& segment, wire::Payload& payload,
                           Segment* answer) {
  std::lock_guard<SpinLock> hold(lock_);
  const bool receives = can_receive(qp_.state()) && segment.transport == qp_.transport();
  if (receives && qp_.type() == QpType::kUd) {
    answer_datagram(segment, payload);
    return false;
  }
  if (segment.src_qpn == wire::kUnknownQpn) [[unlikely]]
    return receives && on_packet(from, segment, payload);
  // A refusal that is still owed answers this one as well: it must be the first thing that the peer hears.
  if (!receives && ack_due_ && (due_syndrome_ & 0x60) != 0) return false;
  if (!receives || segment.src_qpn != peer_qpn_) return Engine::answer_nobody(from, segment, answer);
  if (qp_.has_alternate()) [[unlikely]]
    qp_.note_peer_path(segment);
  reply_channel_ = &from;
  if (xrc_) synchronous_ = answer != nullptr;
  const Verdict verdict = accept(segment, payload);
  if (!reliable_) return false;
  if (!answer) {
    owe(segment);
    return ack_due_;
  }
  may_owe_.store(false, std::memory_order_relaxed);
  if (verdict == Verdict::kDone && wire::wants_response(segment.operation)) {
    const Response response = std::move(responses_.back());
    responses_.pop_back();
    tell_of_read(response, true);
    *answer = reply_to(segment.psn, wire::kAckOk);
    answer->operation = response.operation;
    answer->swap_or_add = response.original;
    return true;
  }
  if (!ack_due_) {
    // Part of a message: say that it was taken, or the requester thinks that it was lost.
    if (verdict != Verdict::kDone || segment.has(wire::kLast)) return false;
    *answer = reply_to(last_taken(), wire::kAckOk);
    return true;
  }
  const bool positive = (due_syndrome_ & 0x60) == 0;
  *answer = reply_to(positive ? last_taken() : due_psn_, due_syndrome_);
  ack_due_ = false;
  return true;
}

// There may be something to send at the end of the drain.
void Responder::owe(const Segment& segment) {
  may_owe_.store(ack_due_ || !responses_.empty(), std::memory_order_relaxed);
  if (ack_due_ || !responses_.empty())
    engine_.owe_ack(*this, !responses_.empty() || (due_syndrome_ & 0x60) != 0 ? Engine::Owed::kAtOnce
                           : !segment.has(wire::kAckRequest)                  ? Engine::Owed::kLater
                           : habit_.expects_answer() && is_wire_              ? Engine::Owed::kAnswer
                           : habit_.expects_answer()                          ? Engine::Owed::kNextLook
                                                                              : Engine::Owed::kSoon);
}

Responder::Verdict Responder::out_of_step(int32_t ahead, const Segment& segment) {
  if (is_wire_ || is_guest_) [[unlikely]]
    return out_of_step_on_wire(ahead, segment);
  // After a refusal everything that followed it is dropped in silence until it comes again.
  if (nak_sent_ && ahead > 0) return Verdict::kDropped;
  ack_due_ = true;
  due_psn_ = segment.psn;
  if (reply_channel_->lossless()) {
    due_syndrome_ = wire::kNakNoQueue;  // nothing is lost here: the ends were given different first PSNs
  } else if (ahead < 0) {
    due_syndrome_ = wire::kAckOk;  // a duplicate: say again how far things got
  } else {
    due_syndrome_ = wire::kNakSequence;
    due_psn_ = expected_psn_;
    nak_sent_ = true;
  }
  return Verdict::kDropped;
}

// Sequence first, then the operation. UC accepts whatever begins a message and drops the rest of a broken
// one.
Responder::Verdict Responder::accept(const Segment& segment, wire::Payload& payload) {
  const int32_t ahead = wire::psn_distance(segment.base_psn, expected_psn_);
  if (reliable_ && ahead != 0) return out_of_step(ahead, segment);
  due_psn_ = segment.psn;
  if (!reliable_ && ahead != 0) drop_message();
  if (!reliable_) expected_psn_ = segment.psn;
  if (dynamic_ && segment.access_key != qp_.spec().access_key) {
    qp_.note_key_violation();
    return refuse(wire::kNakRemoteAccess, "the access key is not the DC target's");
  }
  if (xrc_) [[unlikely]]
    if (const Verdict entered = enter_shared_queue(segment); entered != Verdict::kDone) return entered;
  if (qp_.state() == QpState::kRtr && msn_ == 0 && segment.has(wire::kFirst) && !dynamic_ &&
      qp_.spec().events)
    qp_.spec().events->on_event(AsyncEvent::kCommEstablished);
  nak_sent_ = false;
  const uint32_t bytes = wire::wants_response(segment.operation) ? segment.total_length : segment.length;
  const uint32_t packets =
      segment.operation == Operation::kReadRequest || !wire::wants_response(segment.operation)
          ? packets_of(bytes, qp_.attributes().path_mtu)
          : 1;
  if (is_wire_) [[unlikely]] {
    if (const char* why = wrong_shape(segment)) return refuse_in_turn(wire::kNakInvalidRequest, why);
  } else if (packets != segment.packets) {
    return refuse_in_turn(wire::kNakInvalidRequest, "the two ends use different path MTUs");
  }

  Verdict verdict = Verdict::kDone;
  if (relay_.channel) [[unlikely]] {
    verdict = relay(segment, payload);
  } else if (wire::wants_response(segment.operation)) {
    verdict = answer(segment, payload);
  } else {
    if (segment.has(wire::kFirst)) verdict = begin(segment, payload);
    if (verdict == Verdict::kDone && !message_.active)
      verdict = reliable_ ? refuse(wire::kNakInvalidRequest, "a message goes on that never began")
                          : Verdict::kDropped;
    if (verdict == Verdict::kDone)
      verdict = message_.is_write ? place_write(segment, payload) : place_send(segment, payload);
    if (verdict == Verdict::kDone && segment.has(wire::kLast)) verdict = finish(segment);
  }
  if (verdict == Verdict::kDone || !reliable_) expected_psn_ = wire::psn_add(segment.psn, packets);
  if (verdict == Verdict::kDone && segment.has(wire::kLast)) {
    msn_ = wire::psn_add(msn_, 1);
    if (reliable_ && !wire::wants_response(segment.operation) && !relay_.channel) {
      ack_due_ = true;
      due_syndrome_ = wire::kAckOk;
    }
  }
  return verdict;
}

Responder::Verdict Responder::begin(const Segment& segment, wire::Payload& payload) {
  if (message_.active && reliable_)
    return refuse(wire::kNakInvalidRequest, "a message begins inside another");
  message_ = Progress{};
  message_.is_write = segment.operation == Operation::kWrite;
  message_.total = segment.total_length;
  if (message_.is_write) {
    message_.address = segment.remote_address;
    message_.rkey = segment.rkey;
  }
  if (!message_.is_write) {
    const Verdict verdict = looks_at_messages() ? take_work_for(segment, payload) : take_work(false);
    if (verdict != Verdict::kDone) return verdict;
  }
  message_.active = true;
  return Verdict::kDone;
}

Responder::Verdict Responder::take_work(bool for_write) {
  message_.has_work = true;
  if (work_held_) {
    work_held_ = false;
    return Verdict::kDone;
  }
  if (!work_) work_ = std::make_unique<ReceiveWork>();
  const char* why = nullptr;
  ReceiveQueue* queue = landing_.receive;
  work_->skipped = 0;
  const ReceiveQueue::Take taken = queue ? queue->take(*work_, why) : ReceiveQueue::Take::kNone;
  return settle_take(taken, for_write, why);
}

// The same for a message that is sent, from a queue that looks at how it begins.
Responder::Verdict Responder::take_work_for(const Segment& segment, wire::Payload& payload) {
  std::byte bytes[MessageHead::kBytesMax];
  const uint32_t length = std::min(segment.length, MessageHead::kBytesMax);
  const wire::Piece piece{bytes, length};
  if (length > 0)
    if (const CopyResult result = payload.copy_to(0, &piece, 1); result != CopyResult::kDone)
      return copy_refused(result);
  message_.has_work = true;
  if (!work_) work_ = std::make_unique<ReceiveWork>();
  work_->skipped = 0;
  const char* why = nullptr;
  const bool whole = segment.has(wire::kLast) && segment.packets <= 1;
  return settle_take(landing_.receive->take_for({bytes, length, whole}, *work_, why), false, why);
}

Responder::Verdict Responder::settle_take(ReceiveQueue::Take taken, bool for_write, const char* why) {
  switch (taken) {
    case ReceiveQueue::Take::kWork:
      return Verdict::kDone;
    case ReceiveQueue::Take::kBad:
      return receive_error(Status::kLocalQpOperation, why, wire::kNakRemoteOperational);
    case ReceiveQueue::Take::kNone:
      break;
  }
  if (!for_write) message_ = Progress{};
  message_.has_work = false;
  qp_.count(PortCount::kNoBuffer);
  if (!reliable_) return Verdict::kDropped;
  nak_sent_ = ack_due_ = true;
  due_syndrome_ = wire::kRnrNak | qp_.attributes().min_rnr_timer;
  return Verdict::kRefused;
}

Elements Responder::receive_memory() const {
  return {engine_.keys(),   landing_.domain, kLocalWrite, work_->sges,
          work_->sge_count, landing_.sink,   0,           qp_.number()};
}

Responder::Verdict Responder::place_send(const Segment& segment, wire::Payload& payload) {
  const uint64_t skipped = work_->skipped;
  if (segment.length > work_->capacity() + skipped - message_.placed)
    return receive_error(Status::kLocalLength, "the message is longer than the receive request",
                         wire::kNakInvalidRequest);
  CopyResult result = CopyResult::kDone;
  if (work_->sge_count == 1 && skipped == 0 && segment.length > 0) [[likely]] {
    const Sge& only = work_->sges[0];
    wire::Piece piece;
    if (const char* why =
            engine_.keys().translate(only.lkey, landing_.domain, kLocalWrite, only.address + message_.placed,
                                     segment.length, piece, qp_.number()))
      return receive_error(Status::kLocalProtection, why, wire::kNakRemoteOperational);
    if (piece.length == segment.length) [[likely]] {
      result = payload.copy_to(0, &piece, 1);
      if (result != CopyResult::kDone) return copy_refused(result);
      message_.placed += segment.length;
      return Verdict::kDone;
    }
  }
  const uint64_t from =
      message_.placed < skipped ? std::min<uint64_t>(skipped - message_.placed, segment.length) : 0;
  const uint64_t offset = message_.placed + from - std::min<uint64_t>(skipped, message_.placed + from);
  if (const char* why = place(receive_memory(), offset, segment, payload, result, from))
    return receive_error(Status::kLocalProtection, why, wire::kNakRemoteOperational);
  if (result != CopyResult::kDone) return copy_refused(result);
  message_.placed += segment.length;
  return Verdict::kDone;
}

Responder::Verdict Responder::place_write(const Segment& segment, wire::Payload& payload) {
  if (!(qp_.attributes().access & kRemoteWrite))
    return refuse(wire::kNakRemoteAccess, "the queue pair does not allow remote writes");
  if (segment.length > message_.total - message_.placed)
    return refuse(wire::kNakInvalidRequest, "more bytes than the write announced");
  if (segment.length > 0 && !segment.has(wire::kPlaced)) {
    wire::Piece piece;
    if (const char* why = engine_.keys().translate(message_.rkey, landing_.domain, kRemoteWrite,
                                                   message_.address, message_.total, piece, qp_.number()))
      return refuse(wire::kNakRemoteAccess, why);
    CopyResult result = CopyResult::kDone;
    if (piece.length == message_.total) [[likely]] {
      piece = {static_cast<char*>(piece.base) + message_.placed, segment.length};
      result = payload.copy_to(0, &piece, 1);
    } else {
      const Sge whole{message_.address, message_.total, message_.rkey};
      const Elements memory(engine_.keys(), landing_.domain, kRemoteWrite, &whole, 1, landing_.sink, 0,
                            qp_.number());
      if (const char* why = place(memory, message_.placed, segment, payload, result))
        return refuse(wire::kNakRemoteAccess, why);
    }
    if (result != CopyResult::kDone) return copy_refused(result);
  }
  message_.placed += segment.length;
  return Verdict::kDone;
}

Responder::Verdict Responder::finish(const Segment& segment) {
  const uint32_t next_psn = wire::psn_add(segment.psn, segment.packets);
  if (message_.is_write) {
    if (message_.placed != message_.total)
      return refuse(wire::kNakInvalidRequest, "fewer bytes than the write announced");
    if (segment.has(wire::kImmediate)) {
      if (const Verdict verdict = take_work(true); verdict != Verdict::kDone) {
        message_.placed -= segment.length;  // the last segment comes again after the wait
        if (segment.has(wire::kFirst) || verdict == Verdict::kDropped) message_ = Progress{};
        return verdict;
      }
      told_psn_.store(next_psn, std::memory_order_release);  // before the program can know
      tell_of_write(true);
      complete_receive(segment, Opcode::kWriteImmediate, message_.placed);
    } else {
      told_psn_.store(next_psn, std::memory_order_release);
      tell_of_write(true);
      count_message(message_.placed);
    }
  } else {
    if (segment.has(wire::kInvalidate))
      if (const char* why =
              engine_.keys().invalidate_for_peer(segment.immediate, landing_.domain, qp_.number()))
        return receive_error(Status::kLocalAccess, why, wire::kNakRemoteAccess);
    told_psn_.store(next_psn, std::memory_order_release);
    complete_receive(segment,
                     segment.has(wire::kInvalidate)  ? Opcode::kSendInvalidate
                     : segment.has(wire::kImmediate) ? Opcode::kSendImmediate
                                                     : Opcode::kSend,
                     message_.placed - std::min(work_->skipped, message_.placed));
  }
  message_ = Progress{};
  return Verdict::kDone;
}

void Responder::count_message(uint32_t bytes) {
  constexpr auto relaxed = std::memory_order_relaxed;
  PublishedQp& counters = qp_.published();
  counters.receive_messages.store(counters.receive_messages.load(relaxed) + 1, relaxed);
  counters.receive_bytes.store(counters.receive_bytes.load(relaxed) + bytes, relaxed);
}

void Responder::tell_of_write(bool succeeded) {
  if (qp_.is_told_of(kRemoteWrite)) [[unlikely]]
    qp_.spec().sink->on_remote(Opcode::kWrite, succeeded, message_.placed);
}

void Responder::tell_of_read(const Response& response, bool succeeded) {
  if (response.told) [[unlikely]]
    qp_.spec().sink->on_remote(Opcode::kRead, succeeded, response.length);
}

void Responder::complete_receive(const Segment& segment, Opcode opcode, uint32_t bytes) {
  count_message(bytes);
  ReceiveCompletion completion;
  completion.index = work_->index;
  completion.opcode = opcode;
  completion.solicited = segment.has(wire::kSolicited);
  completion.bytes = bytes;
  completion.immediate = segment.immediate;
  // Packets of connections do not name their sender.
  completion.src_qpn = segment.transport == wire::Transport::kUd ? segment.src_qpn
                       : is_guest_                               ? qp_.spec().guest_of
                                                                 : peer_qpn_;
  completion.service_level = segment.service_level;
  if (qp_.spec().port->is_infiniband())
    completion.source_lid =
        segment.transport == wire::Transport::kUd ? segment.source_lid : qp_.attributes().path.dlid;
  completion.has_grh = segment.has_grh;
  completion.is_ipv4 =
      segment.has_grh && segment.gid_type == GidType::kRoceV2 && segment.dest_gid.is_ipv4_mapped();
  // The program may answer before this thread goes on; the acknowledgement goes before its answer all the
  // same.
  if (reliable_) may_owe_.store(true, std::memory_order_relaxed);
  complete(completion);
}

void Responder::reconnect(uint32_t initiator, uint32_t connection, uint32_t expected_psn) {
  std::lock_guard<SpinLock> hold(lock_);
  abort_receive();
  peer_qpn_ = initiator;
  connection_ = connection;
  connect(expected_psn);
  may_owe_.store(false, std::memory_order_relaxed);
}

bool Responder::is_idle() {
  std::lock_guard<SpinLock> hold(lock_);
  return !owing && !ack_due_ && responses_.empty() && !message_.active && !work_held_;
}

void Responder::complete(ReceiveCompletion& completion) {
  engine_.note_receive();
  completion.qpn = qp_.number();
  if (completion.status != Status::kSuccess) count_failure(completion.status);
  landing_.sink->complete(completion);
}

}  // namespace verbatim::engine
