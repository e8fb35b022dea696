// SPDX-License-Identifier: MIT
// An XRC receiver whose requests are for a shared receive queue of another process of this host: they are put
// into order here and carried out there (xrc_guests.h).
//
//      answered_psn        expected_psn
//   -------|-------------------|-------
//     done | passed on         | to come
//
// The sender hears of what is done, never of what is passed on only. What cannot be passed on now, because it
// is for yet another process or a refusal of it would speak for what is before it, is dropped; when all is
// answered, the sender is asked for it again.
#include <algorithm>
#include <mutex>

#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::CopyResult;
using wire::Operation;
using wire::Segment;
using wire::SendResult;

namespace {

constexpr uint32_t kStageBytes = 8192;         ///< whole packets of any path MTU
constexpr uint32_t kReadBytesMax = 16u << 20;  ///< its response is kept here for a while
constexpr uint16_t kPassed =
    wire::kFirst | wire::kLast | wire::kSolicited | wire::kImmediate | wire::kInvalidate | wire::kAckRequest;
constexpr uint16_t kOfTheEnd = wire::kLast | wire::kSolicited | wire::kImmediate | wire::kInvalidate;

bool is_negative(uint8_t syndrome) { return (syndrome & 0x60) != 0; }
bool ends_connection(uint8_t syndrome) {
  return syndrome >= wire::kNakInvalidRequest && syndrome <= wire::kNakRemoteOperational;
}

}  // namespace

Responder::Verdict Responder::postpone() {
  nak_sent_ = relay_.wanted = true;  // what follows is dropped, too
  return Verdict::kDropped;
}

/// Refuses a request now, or when what is before it is answered and it has come again.
Responder::Verdict Responder::refuse_in_turn(uint8_t syndrome, const char* why) {
  return has_unanswered() ? postpone() : refuse(syndrome, why);
}

Responder::Verdict Responder::relay(const Segment& segment, wire::Payload& payload) {
  const bool whole = wire::wants_response(segment.operation);
  if (whole ? message_.active : segment.has(wire::kFirst) == message_.active)
    return refuse_in_turn(wire::kNakInvalidRequest, "a message begins inside another, or never began");
  if (segment.operation == Operation::kReadRequest && segment.total_length > kReadBytesMax)
    return refuse_in_turn(wire::kNakInvalidRequest,
                          "a read is longer than what is read for another process's shared receive queue");
  uint32_t done = 0;
  do {
    if (const Verdict verdict = pass_on(segment, payload, done); verdict != Verdict::kDone) return verdict;
    if (!whole) message_.active = true, message_.is_write = segment.operation == Operation::kWrite;
  } while (done < segment.length);
  if (!whole) message_.active = !segment.has(wire::kLast);
  return Verdict::kDone;
}

// The part of a segment that begins at byte `done`.
Responder::Verdict Responder::pass_on(const Segment& segment, wire::Payload& payload, uint32_t& done) {
  const uint32_t mtu = qp_.attributes().path_mtu;
  const uint32_t chunk = std::min(segment.length - done, kStageBytes);
  std::byte stage[kStageBytes];
  const wire::Piece piece{stage, chunk};
  const CopyResult copied = chunk > 0 ? payload.copy_to(done, &piece, 1) : CopyResult::kDone;
  if (copied != CopyResult::kDone) {
    if (has_unanswered()) return postpone();
    return answer_later(copied == CopyResult::kForbidden ? wire::kNakCannotPull : wire::kNakSourceFault);
  }
  Segment part = segment;
  part.dest_qpn = part.src_qpn = qp_.number();
  part.psn = part.base_psn = wire::psn_add(segment.psn, done / mtu);
  part.length = chunk;
  part.packets = segment.operation == Operation::kReadRequest ? packets_of(segment.total_length, mtu)
                 : wire::wants_response(segment.operation)    ? 1
                                                              : packets_of(chunk, mtu);
  part.flags = static_cast<uint16_t>((segment.flags & kPassed) | wire::kRelayed | wire::kAckRequest);
  if (done > 0) part.flags &= static_cast<uint16_t>(~wire::kFirst);
  if (done + chunk < segment.length) part.flags &= static_cast<uint16_t>(~kOfTheEnd);
  if (!has_unanswered()) part.flags |= wire::kOpens;
  switch (relay_.channel->send(part, &piece, chunk > 0 ? 1 : 0, false, nullptr)) {
    case SendResult::kAccepted:
      expected_psn_ = wire::psn_add(part.psn, part.packets);
      done += chunk;
      return Verdict::kDone;
    case SendResult::kBusy:
      return has_unanswered() ? postpone() : answer_later(wire::kNakSequence);
    default:
      return refuse_in_turn(wire::kNakRemoteOperational, "the process of the shared receive queue has gone");
  }
}

/// Refuses what comes at the expected PSN; the sender tries again later, or gives up by itself.
Responder::Verdict Responder::answer_later(uint8_t syndrome) {
  nak_sent_ = ack_due_ = true;
  due_syndrome_ = syndrome;
  due_psn_ = expected_psn_;
  return Verdict::kRefused;
}

// One that was carried out already and whose response was lost on a wire.
void Responder::pass_on_again(const Segment& segment) {
  wire::Channel* way = engine_.elsewhere(segment.srqn);
  if (!way) return;
  Segment part = segment;
  part.dest_qpn = part.src_qpn = qp_.number();
  part.length = 0;
  part.packets = segment.operation == Operation::kReadRequest
                     ? packets_of(segment.total_length, qp_.attributes().path_mtu)
                     : 1;
  part.flags = static_cast<uint16_t>((segment.flags & kPassed) | wire::kRelayed | wire::kAckRequest);
  way->send(part, nullptr, 0, false, nullptr);
}

// What comes over a wire answers nothing: only processes of this host have been asked.
void Responder::on_relayed(wire::Channel& from, const Segment& segment, wire::Payload& payload) {
  if (from.is_wire() || segment.transport != wire::Transport::kXrc ||
      segment.operation == Operation::kCongestion)
    return;
  const std::lock_guard<SpinLock> hold(lock_);
  const QpState state = qp_.state();
  const bool receives = state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd;
  // What is answered again on a wire may be of an earlier queue's process.
  const bool again = is_wire_ && segment.operation != Operation::kAck;
  if ((&from != relay_.channel && !again) || !receives || !reply_channel_) return;
  if (segment.operation != Operation::kAck) {
    keep_response(segment, payload);
  } else if (is_negative(segment.syndrome)) {
    take_relayed_refusal(segment);
  } else {
    note_answered(wire::psn_add(segment.psn, 1));
    if (!ack_due_) due_syndrome_ = wire::kAckOk;
    ack_due_ = true;
  }
  if (relay_.wanted && !has_unanswered() && !(ack_due_ && is_negative(due_syndrome_)))
    (void)answer_later(wire::kNakSequence);
  if (!has_unanswered()) relay_.wanted = false;
  may_owe_.store(true, std::memory_order_relaxed);
  engine_.owe_ack(*this, Engine::Owed::kAtOnce);
}

// Everything before that PSN.
void Responder::note_answered(uint32_t psn) {
  const bool ahead = wire::psn_distance(psn, relay_.answered_psn) > 0;
  if (!ahead || wire::psn_distance(psn, expected_psn_) > 0) return;
  relay_.answered_psn = psn;
  told_psn_.store(psn, std::memory_order_release);
}

void Responder::keep_response(const Segment& segment, wire::Payload& payload) {
  constexpr size_t kKeptMax = 65536;  // parts of reads, of which each may have many
  if (responses_.size() >= kKeptMax) return;
  Response response{segment.operation,
                    segment.psn,
                    segment.packets,
                    0,
                    segment.length,
                    0,
                    0,
                    segment.swap_or_add,
                    msn_,
                    0,
                    true,
                    true,
                    static_cast<uint16_t>(segment.flags & (wire::kFirst | wire::kLast))};
  response.bytes = std::make_unique<std::byte[]>(segment.length);
  const wire::Piece piece{response.bytes.get(), segment.length};
  if (segment.length > 0 && payload.copy_to(0, &piece, 1) != CopyResult::kDone) return;
  responses_.push_back(std::move(response));
  if (relay_.channel && segment.has(wire::kLast)) note_answered(wire::psn_add(segment.psn, segment.packets));
}

void Responder::take_relayed_refusal(const Segment& segment) {
  if (wire::psn_distance(segment.psn, relay_.answered_psn) < 0 ||
      wire::psn_distance(segment.psn, expected_psn_) >= 0)
    return;  // of something that has been answered since
  note_answered(segment.psn);
  expected_psn_ = segment.psn;
  message_ = Progress{};
  message_.active = message_.is_write =
      !segment.has(wire::kFirst);  // only the end of a write is refused alone
  const bool nobody = segment.syndrome == wire::kNakNoQueue;
  (void)answer_later(nobody ? static_cast<uint8_t>(wire::kNakRemoteOperational) : segment.syndrome);
  if (!nobody && !ends_connection(segment.syndrome)) return;
  message_ = Progress{};
  break_relay(nobody
                  ? "the process of the shared receive queue knows nothing of the queue pair"
                  : "the process of the shared receive queue refused it, for a reason that it tells itself");
}

// With the refusal owed already: the queue pair fails.
void Responder::break_relay(const char* why) {
  const bool access = due_syndrome_ == wire::kNakRemoteAccess;
  engine_.explain(qp_.number(),
                  static_cast<int>(access ? Status::kRemoteAccess : Status::kRemoteInvalidRequest), due_psn_,
                  why);
  if (qp_.spec().events)
    qp_.spec().events->on_event(access ? AsyncEvent::kQpAccessError : AsyncEvent::kQpRequestError);
  break_off();
}

void Responder::relay_gone(wire::Channel& gone) {
  const std::lock_guard<SpinLock> hold(lock_);
  if (relay_.channel != &gone) return;
  const bool failed = has_unanswered() || message_.active;
  if (failed) expected_psn_ = relay_.answered_psn;
  relay_ = {};
  landing_ = {};
  srqn_ = 0;
  message_ = Progress{};
  if (!failed || !reply_channel_) return;
  (void)answer_later(wire::kNakRemoteOperational);
  break_relay("the process of the shared receive queue has gone");
  engine_.schedule(qp_);
}

// With the lock held. The other process forgets what has begun.
void Responder::end_relay() {
  if (!relay_.channel) return;
  AccessScope scope;
  Segment end;
  end.operation = Operation::kDisconnect;
  end.transport = wire::Transport::kXrc;
  end.flags = wire::kRelayed | wire::kFirst | wire::kLast;
  end.dest_qpn = end.src_qpn = qp_.number();
  end.srqn = srqn_;
  relay_.channel->send(end, nullptr, 0, false, nullptr);
  relay_ = {};
}

}  // namespace verbatim::engine
