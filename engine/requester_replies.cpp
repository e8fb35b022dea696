// SPDX-License-Identifier: MIT
// The requester's other half: acknowledgements, responses, refusals and time.
#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::Segment;

namespace {

constexpr uint64_t kTickNs = 50'000'000;            ///< how often a silent peer is looked at
constexpr uint64_t kDeadPeerRetryNs = 125'000'000;  ///< longest wait between tries when the peer has gone
constexpr uint64_t kEndlessRetryNs = 100'000'000;   ///< between tries when the timeout is "for ever"

// IBA table 46: RNR NAK timer codes, in units of 10 microseconds.
constexpr uint32_t kRnrTimer10us[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                        48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                        2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

}  // namespace

void Requester::watch(uint64_t deadline_ns) {
  const bool listed = watched;
  if (listed && deadline_ns == 0) return;
  watched = true;
  engine_.set_timer(qp_, deadline_ns, listed);
}

void Requester::on_reply(wire::Channel& from, const Segment& segment, wire::Payload& payload) {
  std::lock_guard<SpinLock> hold(lock_);
  const QpState state = qp_.state();
  if ((state != QpState::kRts && state != QpState::kSqd) || !reliable_) return;
  if (qp_.has_alternate() && (is_wire_ || segment.src_qpn == peer_.place.qpn)) [[unlikely]]
    qp_.note_peer_path(segment);
  if (is_wire_) [[unlikely]] {
    // Packets do not name the queue pair that they come from: their host has to be the peer's.
    if (!from.is_wire() || segment.source_gid != peer_.place.gid || qp_.drops_foreign(segment)) return;
    if (segment.transport == wire::Transport::kDc &&
        (segment.connection != peer_.connection || segment.src_qpn != peer_.place.qpn))
      return;
    handle_packet(segment, payload);
    return go_on();
  }
  if (&from != channel_ || segment.src_qpn != peer_.place.qpn) return;
  if (dynamic_ && (segment.transport != wire::Transport::kDc || segment.connection != peer_.connection))
    return;
  handle_reply(segment, &payload);
  go_on();
}

void Requester::on_acknowledgement(wire::Channel& from, const Segment& segment) {
  std::lock_guard<SpinLock> hold(lock_);
  const QpState state = qp_.state();
  if ((state != QpState::kRts && state != QpState::kSqd) || qp_.type() != QpType::kRc) return;
  if (&from != channel_ || segment.src_qpn != peer_.place.qpn || window_count_ == 0) return;
  acknowledge(segment.ack_psn & wire::kPsnMask);
  go_on();
}

void Requester::handle_reply(const Segment& segment, wire::Payload* payload) {
  unheard_ = false;
  if (window_count_ == 0) return;
  switch (segment.operation) {
    case wire::Operation::kAck:
      if ((segment.syndrome & 0x60) == 0)
        acknowledge(segment.psn);
      else
        take_nak(segment);
      return;
    case wire::Operation::kReadResponse:
      return take_read_response(segment, payload);
    case wire::Operation::kAtomicResponse:
      return take_atomic_response(segment);
    case wire::Operation::kSend:
    case wire::Operation::kWrite:
    case wire::Operation::kReadRequest:
    case wire::Operation::kCompareSwap:
    case wire::Operation::kFetchAdd:
    case wire::Operation::kAtomicWrite:
    case wire::Operation::kFlush:
    case wire::Operation::kDisconnect:
    case wire::Operation::kCongestion:
      return;
  }
}

void Requester::acknowledge(uint32_t psn) {
  if (wire::psn_distance(psn, next_psn_) >= 0) return;  // acknowledges what was never sent
  for (uint32_t i = 0; i < window_count_; i++) {
    Outstanding& entry = window_[(window_head_ + i) & window_mask_];
    const uint32_t end = wire::psn_add(entry.first_psn, entry.packets);
    if (entry.packets == 0) continue;  // done when its predecessors are
    if (wire::psn_distance(wire::psn_add(psn, 1), end) < 0) break;
    if (awaits_response(entry.opcode) && !entry.done) break;
    entry.done = true;
  }
  pop_done();
}

void Requester::pop_done() {
  bool progressed = false;
  while (window_count_ > 0 && oldest().done) {
    const Outstanding entry = oldest();
    if (in_message_ && window_count_ == 1) break;  // not wholly sent yet
    window_head_++;
    window_count_--;
    if (awaits_response(entry.opcode)) reads_--;
    complete(entry.index, entry.opcode, entry.signaled, Status::kSuccess, entry.bytes);
    progressed = true;
  }
  if (progressed) rnr_tries_ = lost_tries_ = 0;
}

Requester::Outstanding* Requester::find_outstanding(uint32_t psn) {
  for (uint32_t i = 0; i < window_count_; i++) {
    Outstanding& entry = window_[(window_head_ + i) & window_mask_];
    const int32_t at = wire::psn_distance(psn, entry.first_psn);
    if (at >= 0 && at < static_cast<int32_t>(entry.packets)) return &entry;
  }
  return nullptr;
}

bool Requester::refetch(const Outstanding& entry, Message& message) {
  const char* why = nullptr;
  message.index = entry.index;
  return qp_.spec().send->fetch(entry.index, message.work, message.next_index, why) ==
             SendQueue::Fetch::kWork &&
         message.work.opcode == entry.opcode && check(message, why) == Status::kSuccess &&
         message.length == entry.bytes;
}

void Requester::take_read_response(const Segment& segment, wire::Payload* payload) {
  Outstanding* entry = find_outstanding(segment.psn);
  if (!entry || !(entry->opcode == Opcode::kRead || is_placement(entry->opcode)) || entry->done) return;
  acknowledge(
      wire::psn_add(entry->first_psn, wire::kPsnMask));  // a response acknowledges everything before it
  entry = find_outstanding(segment.psn);
  if (!entry) return;
  if (is_placement(entry->opcode)) {
    entry->done = true;
    return pop_done();
  }
  Message message;
  if (!refetch(*entry, message))
    return fail_oldest(Status::kLocalProtection,
                       "the read's work request or memory changed while it was under way");
  if (!payload && read_within_process(message, segment)) {
    entry->done = true;
    return pop_done();
  }
  if (!payload) {
    const Status status = diagnose_read(message);
    return fail_oldest(status, status == Status::kRemoteAccess
                                   ? "the remote memory is not mapped"
                                   : "the local memory of the read is not mapped");
  }
  const uint64_t offset =
      static_cast<uint64_t>(wire::psn_distance(segment.psn, entry->first_psn)) * qp_.attributes().path_mtu;
  if (offset + segment.length > message.length)
    return fail_oldest(Status::kBadResponse, "a read response is longer than was asked for");
  if (segment.length > 0 && !place_response(message, offset, segment.length, *payload))
    return fail_oldest(Status::kLocalProtection, "the local memory of the read is not mapped");
  if (offset + segment.length == message.length) {
    entry->done = true;
    pop_done();
  }
}

void Requester::take_atomic_response(const Segment& segment) {
  Outstanding* entry = find_outstanding(segment.psn);
  if (!entry || !is_atomic(entry->opcode) || entry->done) return;
  acknowledge(wire::psn_add(entry->first_psn, wire::kPsnMask));
  entry = find_outstanding(segment.psn);
  if (!entry) return;
  Message message;
  if (!refetch(*entry, message))
    return fail_oldest(Status::kLocalProtection,
                       "the atomic's work request or memory changed while it was under way");
  const uint64_t original = segment.swap_or_add;
  if (memory_of(message).store(0, &original, sizeof original, true))
    return fail_oldest(Status::kLocalProtection, "the local memory of the atomic is not mapped");
  entry->done = true;
  pop_done();
}

void Requester::take_nak(const Segment& segment) {
  if (wire::psn_distance(segment.psn, next_psn_) >= 0) return;
  if (wire::psn_distance(segment.psn, oldest().first_psn) < 0) return;  // refuses what has ended already
  if (segment.syndrome == wire::kNakNoQueue) {  // as if lost: it says nothing of what came before
    rewind(oldest().first_psn);
    return note_lost();
  }
  acknowledge(wire::psn_add(segment.psn, wire::kPsnMask));
  if (window_count_ == 0) return;
  switch (segment.syndrome) {
    case wire::kNakSequence:
      qp_.count(PortCount::kSequenceRefusals);
      return rewind(segment.psn);
    case wire::kNakSourceFault:
      return fail_oldest(Status::kLocalProtection, "memory of the work request is not mapped");
    case wire::kNakCannotPull:
      if (channel_) channel_->forbid_pull();
      return rewind(segment.psn);
    default:
      take_refusal(segment);
  }
}

// One that both kinds of channel know. Others mean nothing.
void Requester::take_refusal(const Segment& segment) {
  switch (segment.syndrome) {
    case wire::kNakInvalidRequest:
      return fail_oldest(Status::kRemoteInvalidRequest, "the responder calls the request invalid");
    case wire::kNakRemoteAccess:
      return fail_oldest(Status::kRemoteAccess, "the responder refuses access to its memory");
    case wire::kNakRemoteOperational:
      return fail_oldest(Status::kRemoteOperation, "the responder could not carry it out");
    default:
      if ((segment.syndrome & 0x60) == wire::kRnrNak && rnr_until_ns_ == 0)
        wait_for_ready(segment.syndrome & 0x1f, segment.psn);
  }
}

void Requester::wait_for_ready(uint8_t code, uint32_t psn) {
  PublishedQp& counters = qp_.published();
  counters.rnr_naks.fetch_add(1, std::memory_order_relaxed);
  qp_.count(PortCount::kRnrRefusals);
  const uint8_t limit = qp_.attributes().rnr_retry;
  if (limit != 7 && rnr_tries_ >= limit)
    return fail_oldest(Status::kRnrRetryExceeded,
                       "the responder had no receive request posted, and the RNR retries are used up");
  rnr_tries_++;
  rewind(psn);
  flight_.silent_at_ns = 0;
  rnr_until_ns_ = engine_.clock().now_ns() + kRnrTimer10us[code] * 10'000ull;
  watch(rnr_until_ns_);
}

// Before the cursor goes back.
void Requester::note_begun() {
  const uint32_t begun = in_message_ ? index_ + 1 : index_;
  if (static_cast<int32_t>(begun - sent_until_) > 0) sent_until_ = begun;
}

// Back to the packet `psn` of the oldest message: to its beginning, or into it when the responder has the
// front part.
void Requester::rewind(uint32_t psn) {
  if (window_count_ == 0) return;
  if (is_wire_) return go_back_to_oldest();
  stalled_ = true;
  const Outstanding& entry = oldest();
  const int32_t packets = wire::psn_distance(psn, entry.first_psn);
  note_begun();
  index_ = entry.index;
  in_message_ =
      packets > 0 && packets < static_cast<int32_t>(entry.packets) && !awaits_response(entry.opcode);
  begun_opcode_ = entry.opcode;
  begun_bytes_ = entry.bytes;
  window_count_ = in_message_ ? 1 : 0;
  reads_ = 0;
  sent_bytes_ = in_message_ ? static_cast<uint32_t>(packets) * qp_.attributes().path_mtu : 0;
  next_psn_ = in_message_ ? psn : entry.first_psn;
  ring_psn_ = in_message_ ? psn : entry.base_psn;
}

void Requester::fail_oldest(Status status, const char* why, uint8_t detail) {
  const Outstanding entry = oldest();
  engine_.explain(qp_.number(), static_cast<int>(status), entry.index, why);
  const bool goes_on = dynamic_ && survives(stream_of(entry.index));
  if (!goes_on) qp_.enter_error();
  step_over_oldest();
  window_head_++;
  window_count_--;
  complete(entry.index, entry.opcode, true, status, 0, detail);
  goes_on ? go_on_after_failure() : flush();
}

// Its queue entry may still be at the cursor, and ends here.
void Requester::step_over_oldest() {
  const bool before = behind_ == window_count_;
  const bool within = in_message_ && window_count_ - behind_ == 1;
  if (!before && !within) return;
  index_ = oldest().next_index;
  in_message_ = false;
  sent_bytes_ = 0;
  if (before) behind_--;
}

void Requester::flush() {
  window_count_ -= std::exchange(behind_, 0);  // they are found again from the cursor on
  while (window_count_ > 0) {
    const Outstanding entry = oldest();
    window_head_++;
    window_count_--;
    complete(entry.index, entry.opcode, true, Status::kFlushed, 0);
    // The message at the cursor had begun: its entry has just ended, do not end it again below.
    if (in_message_ && window_count_ == 0) {
      SendWork work;
      const char* why = nullptr;
      uint32_t next = index_ + 1;
      qp_.spec().send->fetch(index_, work, next, why);
      index_ = next;
    }
  }
  disconnect();
  in_message_ = false;
  sent_bytes_ = reads_ = 0;
  rnr_until_ns_ = retry_at_ns_ = paced_until_ns_ = flight_.silent_at_ns = 0;
  while (qp_.spec().send) {
    SendWork work;
    const char* why = nullptr;
    uint32_t next = index_;
    if (qp_.spec().send->fetch(index_, work, next, why) == SendQueue::Fetch::kNone) return;
    const uint32_t ended = index_;
    index_ = next;
    complete(ended, work.opcode, true, Status::kFlushed, 0);
  }
}

void Requester::note_lost() {
  const QpAttributes& attributes = qp_.attributes();
  const bool gone = channel_ == nullptr;
  qp_.published().retries.fetch_add(1, std::memory_order_relaxed);
  qp_.count(PortCount::kTimeouts);
  uint64_t wait = attributes.timeout == 0 ? kEndlessRetryNs : ack_timeout_ns(attributes.timeout);
  if (gone) wait = std::min(wait, kDeadPeerRetryNs);
  const bool endless = attributes.timeout == 0 && !gone;
  if (!endless && lost_tries_ > attributes.retry_count) return give_up();
  lost_tries_++;
  retry_at_ns_ = engine_.clock().now_ns() + wait;
  watch(retry_at_ns_);
}

void Requester::change_way() {
  channel_ = nullptr;
  peer_verified_ = unheard_ = false;
  lost_tries_ = 0;
  retry_at_ns_ = flight_.silent_at_ns = 0;
  stalled_ = true;
  if (is_wire_)
    go_back_to_oldest();
  else if (window_count_ > 0)
    rewind(oldest().first_psn);
}

void Requester::give_up() {
  if (qp_.has_alternate() && qp_.leave_path()) return;
  const Port& port = *qp_.spec().port;
  const std::string obstacle =
      channel_ && !is_wire_ && !port.is_infiniband() ? "" : way_obstacle(engine_.fabric(), port, peer_.place);
  const std::string silence =
      is_wire_
          ? "the peer host does not answer: packets are lost on the way, or its queue pair is not there, "
            "not connected to this one or expects another PSN (see: verbatim doctor HOST)"
          : "nobody answers: the peer process has gone, or its queue pair is not there, not connected to "
            "this one or expects another PSN";
  const std::string why = obstacle.empty() ? silence : "the peer cannot be reached: " + obstacle;
  retry_at_ns_ = 0;
  if (window_count_ > 0) return fail_oldest(Status::kRetryExceeded, why.c_str());
  Message message;
  const char* unused = nullptr;
  if (qp_.spec().send->fetch(index_, message.work, message.next_index, unused) == SendQueue::Fetch::kNone)
    return;
  fail_local(index_, message.next_index, message.work, Status::kRetryExceeded, why.c_str());
}

uint64_t Requester::on_timer(uint64_t now_ns) {
  AccessScope scope;
  std::lock_guard<SpinLock> hold(lock_);
  if (rnr_until_ns_ != 0 && now_ns >= rnr_until_ns_) {
    rnr_until_ns_ = 0;
    run_locked();
  }
  if (retry_at_ns_ != 0 && now_ns >= retry_at_ns_) {
    retry_at_ns_ = 0;
    // Not proven dead: look the way up again, the process may have come back under the same number.
    if (channel_ && !channel_->alive()) lose_channel();
    run_locked();
  }
  if (paced_until_ns_ != 0 && now_ns >= paced_until_ns_) {
    paced_until_ns_ = 0;
    run_locked();
  }
  if (is_wire_) {
    if (flight_.silent_at_ns != 0 && now_ns >= flight_.silent_at_ns) on_silence();
    if (flight_.silent_at_ns != 0 && now_ns >= flight_.probe_at_ns) probe(now_ns);
  } else if (window_count_ > 0 && rnr_until_ns_ == 0 && retry_at_ns_ == 0) {
    const bool lives = channel_ && channel_->alive();
    if (lives)
      channel_->nudge();
    else
      lose_channel();
    if ((!lives || is_ignored()) && window_count_ > 0) {
      rewind(oldest().first_psn);
      note_lost();
    }
  }
  uint64_t next = kNever;
  if (rnr_until_ns_ != 0)
    next = rnr_until_ns_;
  else if (retry_at_ns_ != 0)
    next = retry_at_ns_;
  else if (is_wire_)
    next = flight_.deadline_ns();
  else if (window_count_ > 0)
    next = now_ns + kTickNs;
  if (paced_until_ns_ != 0) next = std::min(next, paced_until_ns_);
  watched = next != kNever;
  return next;
}

}  // namespace verbatim::engine
