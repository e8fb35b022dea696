// SPDX-License-Identifier: MIT
// The responder on an Ethernet wire (IBA 9.7.5, 9.8.2): packets that were lost on the way, come twice or
// late, or that somebody else has sent.
//
//      2^22 PSNs      expected_psn      2^22 PSNs
//   ----|-----------------|----------------|-----
//       | was here before | some are       |
//       |                 | missing        |        elsewhere: a ghost, which gets no answer
//
// Nothing that is not from the address of the queue pair's peer is looked at.
#include <algorithm>
#include <mutex>

#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::Operation;
using wire::Segment;

namespace {

constexpr int32_t kNearPsns = 1 << 22;
constexpr int32_t kStalePsns = 1024;  ///< so late may a packet of an unreliable connection be known as old
constexpr uint32_t kPacketsUnanswered = 64;  ///< taken before an acknowledgement that nobody asked for
constexpr uint64_t kCongestionNs = 50'000;   ///< between two notifications

bool is_atomic(Operation operation) {
  return operation == Operation::kCompareSwap || operation == Operation::kFetchAdd;
}

}  // namespace

// With the lock held, in a state that receives. The result says whether something is owed.
bool Responder::on_packet(wire::Channel& from, const Segment& segment, wire::Payload& payload) {
  if (!from.is_wire() || peer_qpn_ == kNobody) return false;
  if (qp_.has_alternate() && !dynamic_) [[unlikely]]
    qp_.note_peer_path(segment);
  if (dynamic_)
    note_way_back(from, segment);
  else if (segment.source_gid != qp_.attributes().path.dgid || !find_way_back(from))
    return false;
  count_arrived(segment);
  take_packet(segment, payload);
  if (segment.has(wire::kCongested)) tell_of_congestion();
  if (reliable_) owe(segment);
  return ack_due_;
}

// A peer on this host may have chosen the wire when that was the way for such; it stays with it.
bool Responder::find_way_back(wire::Channel& from) {
  if (is_wire_) return true;
  const AddressAttributes& path = qp_.attributes().path;
  wire::Channel* way =
      find_way(engine_.fabric(), *qp_.spec().port, {path.dgid, path.dlid, peer_qpn_, qp_.pkey()});
  if (!way) return false;
  reply_channel_ = way->is_wire() ? way : &from;
  is_wire_ = true;
  return true;
}

// Attributes of a DC target name no peer. Any channel of the wire leads to where its segments say.
void Responder::note_way_back(wire::Channel& from, const Segment& segment) {
  reply_channel_ = &from;
  is_wire_ = true;
  *way_back_ = {segment.dest_gid, segment.source_gid, segment.traffic_class, qp_.attributes().path.hop_limit};
}

void Responder::address_back(Segment& reply) const {
  if (!dynamic_) return qp_.address(reply);
  reply.has_grh = true;
  reply.source_gid = way_back_->here;
  reply.dest_gid = way_back_->there;
  reply.gid_type = GidType::kRoceV2;
  reply.flow_label = 0;
  reply.traffic_class = way_back_->traffic_class;
  reply.hop_limit = way_back_->hop_limit;
}

void Responder::take_packet(const Segment& segment, wire::Payload& payload) {
  const int32_t ahead = wire::psn_distance(segment.psn, expected_psn_);
  if (!reliable_) {
    if (ahead >= 0 || ahead < -kStalePsns) accept(segment, payload);
    return;
  }
  // The packet that a refusal asks for is here before that has left.
  if (ahead == 0 && ack_due_) due_syndrome_ = wire::kAckOk;
  if (accept(segment, payload) != Verdict::kDone || segment.has(wire::kLast)) return;
  if (segment.has(wire::kAckRequest) || ++unanswered_ >= kPacketsUnanswered) {
    ack_due_ = true;
    due_syndrome_ = wire::kAckOk;
  }
  if (ack_due_) unanswered_ = 0;
}

// What is left of an unreliable message is not taken. Its receive request waits for the next one.
void Responder::drop_message() {
  work_held_ |= message_.has_work;
  message_ = Progress{};
}

// What is wrong with a packet at its place in the message; nullptr: nothing.
const char* Responder::wrong_shape(const Segment& segment) const {
  if (wire::wants_response(segment.operation))
    return message_.active                                 ? "a read or atomic comes inside a message"
           : segment.total_length > wire::kMessageBytesMax ? "a read is longer than a message may be"
                                                           : nullptr;
  const uint32_t mtu = qp_.attributes().path_mtu;
  const bool first = segment.has(wire::kFirst), last = segment.has(wire::kLast);
  if (segment.length > mtu) return "a packet is longer than the path MTU";
  if (!last && segment.length != mtu)
    return "a packet that is not its message's last is shorter than the path MTU";
  if (last && !first && segment.length == 0) return "the last of several packets is empty";
  if (!first && message_.active && message_.is_write != (segment.operation == Operation::kWrite))
    return "a message goes on as another operation than it began";
  return nullptr;
}

Responder::Verdict Responder::out_of_step_on_wire(int32_t ahead, const Segment& segment) {
  if (ahead >= kNearPsns || ahead < -kNearPsns) return Verdict::kDropped;
  qp_.count(ahead > 0 ? PortCount::kOutOfSequence : PortCount::kDuplicates);
  if (ahead > 0) {
    if (nak_sent_) return Verdict::kDropped;  // it is said once what is missing
    if (has_unanswered()) return postpone();
    nak_sent_ = ack_due_ = true;
    due_syndrome_ = wire::kNakSequence;
    due_psn_ = expected_psn_;
  } else if (xrc_ && !is_guest_ && wire::wants_response(segment.operation) &&
             engine_.elsewhere(segment.srqn)) {
    pass_on_again(segment);
  } else if (segment.operation == Operation::kReadRequest) {
    repeat_read(segment, ahead);
  } else if (is_atomic(segment.operation)) {
    repeat_atomic(segment);
  } else if (wire::wants_response(segment.operation)) {
    repeat_placement(segment);
  } else if (!ack_due_) {
    ack_due_ = true;
    due_syndrome_ = wire::kAckOk;
  }
  return Verdict::kDropped;
}

// A read is carried out again, from where the requester lacks it. What cannot be read any more, or may not,
// gets no answer: the request may have been on its way for long, and nobody waits for it.
void Responder::repeat_read(const Segment& segment, int32_t ahead) {
  const uint32_t packets = packets_of(segment.total_length, qp_.attributes().path_mtu);
  if (packets > static_cast<uint32_t>(-ahead) || responses_.size() >= kReadsMax) return;
  for (const Response& response : responses_) {
    const uint32_t sent = response.sent / qp_.attributes().path_mtu;
    const int32_t into = wire::psn_distance(segment.psn, response.psn);
    // Still to be sent: that answers this one as well.
    if (into >= static_cast<int32_t>(sent) && into < static_cast<int32_t>(response.packets)) return;
  }
  if (!(qp_.attributes().access & kRemoteRead)) return;
  uint32_t domain = landing_.domain;
  if (SharedQueue queue; xrc_) {
    if (find_shared_queue(segment.srqn, queue)) return;
    domain = queue.landing.domain;
  }
  wire::Piece piece;
  if (segment.total_length > 0 &&
      engine_.keys().translate(segment.rkey, domain, kRemoteRead, segment.remote_address,
                               segment.total_length, piece, qp_.number()))
    return;
  responses_.push_back({Operation::kReadResponse, segment.psn, packets, segment.rkey, segment.total_length, 0,
                        segment.remote_address, 0, msn_, domain, true});
}

void Responder::repeat_atomic(const Segment& segment) {
  for (const Response& response : responses_)
    if (response.psn == segment.psn) return;
  for (uint32_t i = 0; i < std::min<uint32_t>(answered_count_, kReadsMax); i++)
    if (answered_[i].psn == segment.psn && responses_.size() < kReadsMax)
      return responses_.push_back(
          {Operation::kAtomicResponse, segment.psn, 1, 0, 0, 0, 0, answered_[i].original, msn_, 0, true});
}

// An atomic write or a flush was carried out, and is not again.
void Responder::repeat_placement(const Segment& segment) {
  for (const Response& response : responses_)
    if (response.psn == segment.psn) return;
  if (responses_.size() < kReadsMax)
    responses_.push_back(
        {Operation::kReadResponse, segment.psn, 1, 0, 0, 0, 0, 0, msn_, landing_.domain, true});
}

void Responder::remember_atomic(uint32_t psn, uint64_t original) {
  if (!answered_) answered_ = std::make_unique<Answered[]>(kReadsMax);
  answered_[answered_count_++ % kReadsMax] = {psn, original};
}

void Responder::answer_along() {
  AccessScope scope;
  std::unique_lock<SpinLock> hold(lock_);
  while (leaving_.load(std::memory_order_relaxed)) {  // which begins and ends under the lock
    hold.unlock();
    engine_.let_owed_leave();
    hold.lock();
  }
  if (reply_channel_ && send_responses() && ack_due_)
    (void)send_acknowledgement();  // without room it stays owed
}

void Responder::note_send() {
  std::lock_guard<SpinLock> hold(lock_);
  habit_.on_send(engine_.looks());
  left_alone_.store(false, std::memory_order_relaxed);
}

void Responder::tell_of_congestion() {
  qp_.count(PortCount::kCongestionMarked);
  const uint64_t now_ns = engine_.clock().now_ns();
  if (now_ns < congested_ns_ + kCongestionNs) return;
  congested_ns_ = now_ns;
  Segment notice = reply_to(0, wire::kAckOk);
  notice.operation = Operation::kCongestion;
  reply_channel_->send(notice, nullptr, 0, false, nullptr);
  qp_.count(PortCount::kCongestionTold);
  count_answered(notice);
}

}  // namespace verbatim::engine
