// SPDX-License-Identifier: MIT
// The requester on an Ethernet wire, where packets are lost, doubled and overtaken (IBA 9.7).
//
//        oldest_lacking       cursor (next_psn_)            end_psn
//   ---------|--------------------|-------------------------|--------> PSN
//   received |  on its way (bytes, |  was sent, and has to   |  never sent
//            |  at most the window)|  be sent again          |
//
// Entries stay in the window until the peer has all of their packets, or all of their responses are here. A
// sign of loss puts the cursor back to the oldest packet that the peer may lack, within its message; entries
// behind the cursor (behind_) are sent again as they come. An acknowledgement may be of an earlier time and
// lie beyond the cursor: then that jumps forward.
//
// Signs of loss: a NAK for a sequence error; a response or acknowledgement beyond a response that has not
// come; silence for the queue pair's timeout.
//
// A long read is asked for in parts, so that no more comes than the window allows; what is asked for again
// keeps to these parts.
#include <algorithm>
#include <utility>

#include "engine/elements.h"
#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::Segment;
using wire::SendResult;

namespace {

/// A program's thread may not get its processor for so long: shorter timeouts would be taken for loss.
constexpr uint64_t kTimeoutMinNs = 4'000'000;
/// The specification lets the timeout be up to four times what was asked for: who is slow to answer, because
/// nobody lets him run, gets that from the third try on.
constexpr uint32_t kDoublingsMax = 2;
constexpr uint64_t kProbeNs = 1'000'000;  ///< of silence, before the first look what the peer has
constexpr uint64_t kProbesWorthNs = 2 * kTimeoutMinNs;  ///< shorter timeouts do without

constexpr uint32_t kReadPartMax = 4;          ///< payloads of the channel that are asked for at a time
constexpr uint32_t kStreamPackets = 4;        ///< under way when messages begin to wait for company
constexpr uint32_t kGatheredMax = 64;         ///< doorbells that may wait
constexpr uint32_t kGatheredBytesMax = 1024;  ///< of a message that may

uint32_t before(uint32_t psn) { return wire::psn_add(psn, wire::kPsnMask); }

}  // namespace

uint32_t Requester::oldest_lacking() const {
  return window_count_ > 0 ? wire::psn_add(oldest().first_psn, oldest().received) : next_psn_;
}

// --- sending ---

// Small messages of a stream leave in groups, which cost little more than one: while acknowledgements are on
// their way, doorbells wait for these, for the program's next look for completions, or for enough others.
bool Requester::gathers() {
  const auto under_way = static_cast<uint32_t>(wire::psn_distance(next_psn_, oldest_lacking()));
  const bool stream = under_way >= kStreamPackets && flight_.unasked < under_way && flight_.silent_at_ns != 0;
  const bool small = !in_message_ && begun_bytes_ <= kGatheredBytesMax;
  return stream && small && behind_ == 0 && qp_.state() == QpState::kRts && ++flight_.rung < kGatheredMax;
}

Requester::Step Requester::send_on_wire(Message& message) {
  const Opcode opcode = message.work.opcode;
  const uint32_t at_once = channel_->payload_max(false);
  uint32_t chunk =
      std::min(message.length - sent_bytes_, awaits_response(opcode) ? at_once * kReadPartMax : at_once);
  if (awaits_response(opcode) && flight_.asked.is_again()) {
    if (!fits_again(message, chunk)) return Step::kStop;
  } else if (reliable_ && !fits_window(message, chunk)) {
    return Step::kStop;
  }
  if (awaits_response(opcode)) {
    if (!flight_.asked.is_again() && flight_.asked.count() >= qp_.attributes().max_rd_atomic)
      return Step::kStop;
    if (opcode != Opcode::kAtomicWrite) return submit(message, chunk, nullptr, 0, false);
  }
  if (message.scattered) [[unlikely]]
    return send_scattered(message, chunk);
  wire::Piece pieces[kSgeMax];
  const uint32_t count = slice(message.pieces, message.count, sent_bytes_, chunk, pieces);
  return submit(message, chunk, pieces, count, false);
}

// Cuts `chunk` to what may be sent now, whole packets. False: nothing, or too little to be worth it.
bool Requester::fits_window(const Message& message, uint32_t& chunk) {
  const uint32_t mtu = qp_.attributes().path_mtu;
  const auto under_way = static_cast<uint32_t>(wire::psn_distance(next_psn_, oldest_lacking()));
  if (under_way == 0) {
    if (flight_.window.bytes() < SendWindow::kBytesMax) flight_.window.grow(engine_.clock().now_ns());
  } else if (under_way >= Flight::kPacketsMax || flight_.bytes >= flight_.window.bytes()) {
    return false;
  }
  const uint32_t packets = Flight::kPacketsMax - std::min(under_way, Flight::kPacketsMax - 1);
  const uint32_t bytes = flight_.window.bytes() - std::min(flight_.bytes, flight_.window.bytes() - 1);
  const uint32_t room = std::min(packets, std::max(bytes / mtu, 1u)) * mtu;
  // Small parts of a read cost its responder more than they do anybody else.
  const uint32_t share = awaits_response(message.work.opcode) ? 2 : 4;
  const bool worth = room >= std::min(chunk, flight_.window.bytes() / share);
  if (under_way > 0 && !worth) return false;
  if (chunk > room) chunk = room;
  const bool rest = sent_bytes_ + chunk == message.length;
  if (!rest) chunk -= chunk % mtu;
  return true;
}

// What is asked for again goes as far as the first time: the responder may have carried it out, or may be
// about to, and takes nothing that is partly old and partly new.
bool Requester::fits_again(const Message& message, uint32_t& chunk) const {
  const int32_t packets = wire::psn_distance(flight_.asked.next_end(), next_psn_);
  const uint64_t bytes = static_cast<uint64_t>(std::max(packets, 1)) * qp_.attributes().path_mtu;
  chunk = static_cast<uint32_t>(std::min<uint64_t>(message.length - sent_bytes_, bytes));
  return flight_.bytes == 0 || flight_.bytes + chunk <= flight_.window.bytes();
}

void Requester::prepare_for_wire(const Message& message, uint32_t chunk, Segment& segment) const {
  if (dynamic_)
    address_to(initiator_->route, segment);
  else
    qp_.address(segment);
  segment.base_psn = dynamic_ ? oldest_lacking() : segment.psn;
  if (!reliable_) {
    segment.flags &= static_cast<uint16_t>(~wire::kAckRequest);
    return;
  }
  if (awaits_response(message.work.opcode)) {
    segment.flags |= wire::kFirst | wire::kLast | wire::kAckRequest;
    if (message.work.opcode != Opcode::kRead) return;
    segment.remote_address += sent_bytes_;
    segment.total_length = chunk;
    segment.packets = packets_of(chunk, qp_.attributes().path_mtu);
    return;
  }
  // Whatever stops the cursor next, an answer must be on its way then: one that was asked for before will do,
  // unless the window has been halved since.
  const uint32_t window = flight_.window.bytes(), unasked = flight_.unasked + segment.packets;
  const auto under_way = static_cast<uint32_t>(wire::psn_distance(next_psn_, oldest_lacking()));
  const bool awaited = flight_.unasked < under_way && window == SendWindow::kBytesMax;
  const bool full = flight_.bytes + chunk + std::min(channel_->payload_max(false), window / 4) > window;
  if (segment.has(wire::kLast) || (full && !awaited) || rate_limit_ || unasked >= Flight::kPacketsUnasked ||
      unasked * qp_.attributes().path_mtu >= window / 2)
    segment.flags |= wire::kAckRequest;
}

Requester::Step Requester::after_wire_send(SendResult result, Message& message, const Segment& segment,
                                           uint32_t chunk) {
  if (result == SendResult::kSourceFault)
    return fail_local(message.index, message.next_index, message.work, Status::kLocalProtection,
                      "memory of the work request is not mapped");
  // What could not be sent is as if it was lost.
  peer_.knows = true;
  if (reliable_ && !in_message_) {
    if (behind_ > 0)
      behind_--;
    else
      record(message, false);
  }
  next_psn_ = ring_psn_ = wire::psn_add(segment.psn, segment.packets);
  sent_bytes_ += chunk;
  in_message_ = sent_bytes_ < message.length;
  begun_opcode_ = message.work.opcode;
  begun_bytes_ = message.length;
  budget_bytes_ -= std::min<uint64_t>(budget_bytes_, chunk);
  charge(segment.length);
  if (!reliable_) return in_message_ ? Step::kAgain : after_message(message);

  if (wire::psn_distance(next_psn_, flight_.end_psn) > 0) flight_.end_psn = next_psn_;
  if (awaits_response(message.work.opcode)) flight_.asked.add(next_psn_);
  flight_.bytes += chunk;
  flight_.unasked = segment.has(wire::kAckRequest) ? 0 : flight_.unasked + segment.packets;
  if (!in_message_) {
    index_ = message.next_index;
    sent_bytes_ = 0;
  }
  if (flight_.silent_at_ns == 0) expect_answer();
  return Step::kAgain;
}

// The entry at the cursor was sent once already: it may not have changed since.
bool Requester::is_as_before(const Message& message) const {
  if (in_message_) return true;  // it is compared with what has begun
  const Outstanding& entry = window_[(window_head_ + window_count_ - behind_) & window_mask_];
  return entry.opcode == message.work.opcode && entry.bytes == message.length;
}

// A local operation between messages that are sent again: it was carried out, and is not again.
Requester::Step Requester::pass_again(const Message& message) {
  const Outstanding& entry = window_[(window_head_ + window_count_ - behind_) & window_mask_];
  if (entry.packets != 0)
    return fail_local(message.index, message.next_index, message.work, Status::kLocalQpOperation,
                      "the work queue entry was changed while its message was under way");
  behind_--;
  index_ = entry.next_index;
  return Step::kAgain;
}

// --- answers ---

void Requester::handle_packet(const Segment& segment, wire::Payload& payload) {
  count_returned(segment);
  if (segment.operation == wire::Operation::kCongestion) {
    qp_.count(PortCount::kCongestionHeard);
    return flight_.window.on_congestion(engine_.clock().now_ns());
  }
  if (window_count_ == 0 || segment.transport != qp_.transport()) return;
  if (wire::psn_distance(segment.psn, flight_.end_psn) >= 0) return;  // answers what was never sent
  if (segment.operation != wire::Operation::kAck)
    take_wire_response(segment, payload);
  else if ((segment.syndrome & 0x60) == 0)
    take_acknowledgement(segment.psn);
  else
    take_wire_nak(segment);
  if (!flight_.progressed) return;
  flight_.progressed = false;
  flight_.asked.drop_until(oldest_lacking());
  if (next_psn_ == oldest_lacking() || rnr_until_ns_ != 0)
    flight_.silent_at_ns = 0;  // nothing is under way
  else
    expect_answer();
}

void Requester::take_acknowledgement(uint32_t psn) {
  received_until(psn);
  if (psn != flight_.probed_psn) return;
  // It has the packet that was sent again, and nothing of what was sent before that.
  flight_.probed_psn = Flight::kNoPsn;
  if (window_count_ > 0 && next_psn_ != oldest_lacking()) infer_loss();
}

// The peer has everything up to that PSN. Entries that want responses end by these alone.
void Requester::received_until(uint32_t psn) {
  bool lost = false;
  while (window_count_ > 0) {
    Outstanding& entry = oldest();
    const int32_t covered =
        std::min(wire::psn_distance(psn, entry.first_psn) + 1, static_cast<int32_t>(entry.packets));
    if (entry.packets > 0 && covered <= static_cast<int32_t>(entry.received)) break;
    lost = awaits_response(entry.opcode);
    if (lost) break;
    if (entry.packets > 0) note_received(entry, static_cast<uint32_t>(covered));
    if (entry.received < entry.packets) break;
    end_oldest();
  }
  if (wire::psn_distance(next_psn_, oldest_lacking()) < 0 ||
      (window_count_ == 0 && next_psn_ != flight_.end_psn))
    go_back_to_oldest();
  if (!lost) return;
  qp_.count(PortCount::kSequenceGaps);
  infer_loss();
}

void Requester::note_received(Outstanding& entry, uint32_t packets) {
  const uint32_t mtu = qp_.attributes().path_mtu;
  const auto bytes_of = [&](uint32_t n) { return n == entry.packets ? entry.bytes : n * mtu; };
  const uint32_t bytes = bytes_of(packets) - bytes_of(entry.received);
  flight_.bytes -= std::min(flight_.bytes, bytes);
  flight_.progressed = true;
  flight_.lost_psn = Flight::kNoPsn;
  entry.received = packets;
  rnr_tries_ = lost_tries_ = 0;
  if (flight_.window.bytes() < SendWindow::kBytesMax) flight_.window.grow(engine_.clock().now_ns());
}

void Requester::end_oldest() {
  const Outstanding entry = oldest();
  step_over_oldest();
  window_head_++;
  window_count_--;
  if (awaits_response(entry.opcode)) reads_--;
  complete(entry.index, entry.opcode, entry.signaled, Status::kSuccess, entry.bytes);
}

// The cursor goes to the oldest packet that the peer may lack: backwards, or forwards if that is ahead of it.
void Requester::go_back_to_oldest() {
  note_begun();
  stalled_ = true;
  flight_.bytes = flight_.unasked = 0;
  in_message_ = false;
  sent_bytes_ = behind_ = 0;
  next_psn_ = ring_psn_ = flight_.end_psn;
  flight_.asked.drop_until(oldest_lacking());
  flight_.asked.repeat();
  if (window_count_ == 0) return;
  const Outstanding& entry = oldest();
  index_ = entry.index;
  in_message_ = entry.received > 0;
  begun_opcode_ = entry.opcode;
  begun_bytes_ = entry.bytes;
  sent_bytes_ = entry.received * qp_.attributes().path_mtu;
  next_psn_ = ring_psn_ = oldest_lacking();
  behind_ = window_count_ - (in_message_ ? 1 : 0);
}

// Something that came later is here. Once for each missing packet: what is then still missing shows by
// silence.
void Requester::infer_loss() {
  const uint32_t missing = oldest_lacking();
  if (flight_.lost_psn == missing) return;
  flight_.lost_psn = missing;
  flight_.window.on_loss(engine_.clock().now_ns());
  go_back_to_oldest();
  flight_.progressed = true;  // what is sent now has its time
}

void Requester::take_wire_response(const Segment& segment, wire::Payload& payload) {
  Outstanding* entry = find_outstanding(segment.psn);
  const bool read = segment.operation == wire::Operation::kReadResponse;
  if (!entry) return;
  const bool awaited =
      read ? entry->opcode == Opcode::kRead || is_placement(entry->opcode) : is_atomic(entry->opcode);
  if (!awaited) return;
  received_until(before(entry->first_psn));
  if (window_count_ == 0 || &oldest() != entry) return;  // an earlier one lacks responses: that was noted
  const auto at = static_cast<uint32_t>(wire::psn_distance(segment.psn, entry->first_psn));
  if (at < entry->received) return;  // here already
  if (at > entry->received) {
    qp_.count(PortCount::kSequenceGaps);
    return infer_loss();
  }
  Message message;
  if (!refetch(*entry, message))
    return fail_oldest(Status::kLocalProtection,
                       "the work request or its memory changed while it was under way");
  if (!take_response_bytes(message, segment, payload)) return;
  note_received(*entry, at + 1);
  if (entry->received == entry->packets) end_oldest();
  received_until(segment.psn);  // local operations that stood behind it
}

// False: the request has failed.
bool Requester::take_response_bytes(const Message& message, const Segment& segment, wire::Payload& payload) {
  if (segment.operation == wire::Operation::kAtomicResponse) {
    const uint64_t original = segment.swap_or_add;
    if (!memory_of(message).store(0, &original, sizeof original, true)) return true;
    fail_oldest(Status::kLocalProtection, "the local memory of the atomic is not mapped");
    return false;
  }
  if (is_placement(message.work.opcode)) return true;
  const uint32_t mtu = qp_.attributes().path_mtu;
  const uint32_t offset = oldest().received * mtu;
  if (segment.length != std::min(mtu, message.length - offset)) {
    fail_oldest(Status::kBadResponse, "a read response is not as long as its place in the message says");
    return false;
  }
  if (segment.length == 0 || place_response(message, offset, segment.length, payload)) return true;
  fail_oldest(Status::kLocalProtection, "the local memory of the read is not mapped");
  return false;
}

void Requester::take_wire_nak(const Segment& segment) {
  if (wire::psn_distance(segment.psn, oldest_lacking()) < 0)
    return;  // of something that has got through since
  received_until(before(segment.psn));
  if (window_count_ == 0) return;
  if (segment.psn != oldest_lacking()) return infer_loss();  // a read before it lacks responses
  if (segment.syndrome != wire::kNakSequence) return take_refusal(segment);
  qp_.count(PortCount::kSequenceRefusals);
  if (flight_.lost_psn != segment.psn) return infer_loss();
  go_back_to_oldest();
}

// --- time ---

void Requester::expect_answer() {
  const uint8_t code = qp_.attributes().timeout;
  if (code == 0) return;  // for ever
  const bool new_here = flight_.silent_at_ns == 0;
  const uint64_t timeout_ns = std::max(ack_timeout_ns(code), kTimeoutMinNs);
  const uint64_t now_ns = engine_.clock().now_ns();
  flight_.silent_at_ns = now_ns + (timeout_ns << std::min<uint32_t>(lost_tries_, kDoublingsMax));
  flight_.probe_wait_ns = kProbeNs;
  flight_.probe_at_ns = timeout_ns >= kProbesWorthNs ? now_ns + kProbeNs : kNever;
  if (new_here) watch(flight_.deadline_ns());
}

// What was lost last, or its acknowledgement, shows only by silence.
void Requester::probe(uint64_t now_ns) {
  flight_.probe_wait_ns *= 2;
  flight_.probe_at_ns = now_ns + flight_.probe_wait_ns;
  if (window_count_ == 0 || rnr_until_ns_ != 0 || next_psn_ == oldest_lacking()) return;
  qp_.published().retries.fetch_add(1, std::memory_order_relaxed);
  if (!awaits_response(oldest().opcode)) return repeat_oldest();
  go_back_to_oldest();
  run_locked();
}

// The oldest packet that the peer may lack, once more; the cursor stays.
void Requester::repeat_oldest() {
  Message message;
  if (oldest().packets == 0 || !refetch(oldest(), message) || message.scattered) return;
  flight_.probed_psn = oldest_lacking();
  const uint32_t psn = std::exchange(next_psn_, flight_.probed_psn);
  const uint32_t sent = std::exchange(sent_bytes_, oldest().received * qp_.attributes().path_mtu);
  const uint32_t chunk = std::min(message.length - sent_bytes_, qp_.attributes().path_mtu);
  wire::Piece pieces[kSgeMax];
  const uint32_t count = slice(message.pieces, message.count, sent_bytes_, chunk, pieces);
  Segment segment = make_segment(message, chunk);
  segment.flags |= wire::kAckRequest;
  next_psn_ = psn;
  sent_bytes_ = sent;
  count_sent(segment, qp_.frame_bytes());
  (void)channel_->send(segment, pieces, count, false, nullptr);
}

void Requester::on_silence() {
  flight_.silent_at_ns = 0;
  if (window_count_ == 0 || rnr_until_ns_ != 0) return;
  if (next_psn_ != oldest_lacking()) {
    if (lost_tries_ >= qp_.attributes().retry_count) return give_up();
    lost_tries_++;
    qp_.count(PortCount::kTimeouts);
    qp_.published().retries.fetch_add(1, std::memory_order_relaxed);
    flight_.lost_psn = Flight::kNoPsn;
    flight_.window.on_loss(engine_.clock().now_ns());
    go_back_to_oldest();
  }
  run_locked();
}

}  // namespace verbatim::engine
