// SPDX-License-Identifier: MIT
// The playing part of an end.
#include "testing/simulation/end.h"

#include <algorithm>
#include <stdexcept>

namespace verbatim::simulation {

using namespace engine;

namespace {

constexpr uint32_t kDomain = 1;
constexpr uint32_t kQkey = 0x11111111;
constexpr uint8_t kUntouched = 0xee;
constexpr uint32_t kGrhBytes = 40;

}  // namespace

End::End(SimulatedHost& host, Network& network, Trace& trace, Findings& findings, Plan plan,
         const Limits& limits, uint64_t seed)
    : host_(host),
      network_(network),
      trace_(trace),
      findings_(findings),
      plan_(std::move(plan)),
      limits_(limits),
      random_(seed) {
  attributes_.port = 1;
  attributes_.access =
      kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent;
  attributes_.path_mtu = limits.mtu;
  attributes_.max_rd_atomic = attributes_.max_dest_rd_atomic = limits.reads;
  attributes_.timeout = limits.timeout;
  attributes_.retry_count = limits.retry_count;
  attributes_.rnr_retry = limits.rnr_retry;
  attributes_.min_rnr_timer = limits.min_rnr_timer;
  attributes_.qkey = kQkey;
  attributes_.path.is_global = true;
  performed_.resize(plan_.messages.size());
}

void End::make_region(Region& region, uint64_t start, size_t bytes, uint32_t access) {
  region.bytes.assign(std::max<size_t>(bytes, 8), kUntouched);
  region.start = start;
  region.key = *host_.engine().keys().create(
      {kDomain, access, start, region.bytes.size(), reinterpret_cast<uint64_t>(region.bytes.data())}, 1);
}

void End::open(const Plan& peer_plan) {
  const uint64_t base = uint64_t{host_.number() + 1} << 40;
  const bool datagrams = plan_.type == QpType::kUd;
  capacity_ = peer_plan.receive_bytes + (datagrams ? kGrhBytes : 0);
  make_region(source_, base | 0x10000000, Plan::kSourceBytes, kRemoteRead);
  make_region(target_, base | 0x20000000, peer_plan.target_bytes,
              kLocalWrite | kRemoteWrite | kRemoteRead | kFlushGlobal | kFlushPersistent);
  make_region(landing_, base | 0x30000000, plan_.landing_bytes, kLocalWrite);
  make_region(inbox_, base | 0x40000000, size_t{capacity_} * peer_plan.receives, kLocalWrite);
  make_region(counter_, base | 0x50000000, 16, kLocalWrite | kRemoteAtomic);
  std::fill(counter_.bytes.begin(), counter_.bytes.end(), 0);
  random_.fill(source_.bytes.data(), source_.bytes.size());
  arrivals_.resize(peer_plan.messages.size());
  QueuePairSpec spec;
  spec.type = plan_.type;
  spec.domain = kDomain;
  spec.send = this;
  spec.receive = this;
  spec.sink = this;
  spec.events = this;
  spec.send_entries = limits_.depth;
  spec.shared_receive = plan_.shared;
  if (plan_.type == QpType::kXrcSend) return open_xrc(spec);
  qp_ = *host_.engine().create_queue_pair(spec);
  number_ = qp_->number();
}

void End::open_xrc(QueuePairSpec spec) {
  constexpr uint64_t kXrcDomain = 7;
  spec.receive = nullptr;
  spec.shared_receive = false;
  qp_ = *host_.engine().create_queue_pair(spec);
  number_ = qp_->number();
  spec.type = QpType::kXrcReceive;
  spec.domain = 0;
  spec.send = nullptr;
  spec.send_entries = 0;
  spec.shared_receive = true;
  spec.xrc_domain = kXrcDomain;
  receiver_ = *host_.engine().create_queue_pair(spec);
  receiver_number_ = receiver_->number();
  for (uint32_t& number : shared_queues_)
    number = *host_.engine().add_shared_queue({kXrcDomain, {kDomain, this, this}});
}

void End::step(QueuePair& qp, QpState to, uint32_t mask) {
  attributes_.state = to;
  if (Outcome done = qp.modify(attributes_, mask | kQpState); !done)
    throw std::runtime_error(done.error().reason);
}

void End::bring_up(QueuePair& qp, uint32_t peer_number) {
  const QpType type = qp.type();
  const bool ud = type == QpType::kUd, asks = type == QpType::kRc || type == QpType::kXrcSend;
  const bool answers = type == QpType::kRc || type == QpType::kXrcReceive;
  network_.introduce(host_.number(), qp.number(), peer_number);
  attributes_.dest_qpn = peer_number;
  step(qp, QpState::kInit, kQpPkeyIndex | kQpPort | (ud ? kQpQkey : kQpAccessFlags));
  step(qp, QpState::kRtr,
       ud ? 0
          : kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | (answers ? kQpMaxDestRdAtomic | kQpMinRnrTimer : 0));
  step(qp, QpState::kRts,
       kQpSqPsn | (asks      ? kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic
                   : answers ? static_cast<uint32_t>(kQpTimeout)
                             : 0u));
}

void End::connect(End& peer) {
  peer_ = &peer;
  attributes_.path.dgid = address_of(peer.host());
  attributes_.sq_psn = limits_.first_psn;
  attributes_.rq_psn = peer.limits_.first_psn;
  if (receiver_) bring_up(*receiver_, peer.number_);
  bring_up(*qp_, receiver_ ? peer.receiver_number_ : peer.number_);
}

void End::on_event(AsyncEvent event) {
  if (event == AsyncEvent::kQpLastWqeReached) last_receives_++;
}

void End::die() {
  if (qp_) trace_.event(host(), number_, "is gone; messages ended, of", ended_, plan_.messages.size());
  qp_ = receiver_ = nullptr;
}

void End::put_into_error() {
  attributes_.state = QpState::kError;
  for (QueuePair* qp : {qp_, receiver_})
    if (qp && !qp->modify(attributes_, kQpState)) throw std::runtime_error("no way to the error state");
}

void End::give_up() {
  if (is_dead()) return;
  trace_.event(host(), number_, "is put into the error state; messages ended, of", ended_,
               plan_.messages.size());
  given_up_ = true;
  put_into_error();
}

void End::post_sends(uint32_t count) {
  if (is_dead()) return;
  posted_ = std::min(posted_ + count, static_cast<uint32_t>(plan_.messages.size()));
  qp_->ring();
}

void End::post_receives(uint32_t count) {
  if (is_dead()) return;
  receives_posted_ = std::min(receives_posted_ + count, peer_->plan_.receives);
}

// The elements lie one behind the other; cut in up to three.
void End::fill_elements(const Message& message, SendWork& work) const {
  const bool lands = message.is_atomic() || message.opcode == Opcode::kRead;
  const Region& region = lands ? landing_ : source_;
  const uint64_t at = region.start + (lands ? message.landing : message.source);
  const uint32_t pieces = message.length >= 3 ? message.pieces : 1;
  uint32_t done = 0;
  for (uint32_t i = 0; i < pieces && message.length > 0; i++) {
    const uint32_t length = i + 1 == pieces ? message.length - done : message.length / pieces;
    work.sges[work.sge_count++] = {at + done, length, region.key};
    done += length;
  }
}

SendQueue::Fetch End::fetch(uint32_t index, SendWork& work, uint32_t& next, const char*&) {
  if (index >= posted_) return Fetch::kNone;
  begun_ = std::max(begun_, index + 1);
  const Message& message = plan_.messages[index];
  work.opcode = message.opcode;
  work.signaled = message.signaled;
  work.fence = message.fence;
  work.solicited = message.solicited;
  work.immediate = message.immediate;
  work.swap_or_add = message.swap_or_add;
  work.compare = message.compare;
  work.reach = message.reach;
  if (message.opcode == Opcode::kFlush) work.immediate = message.placement;
  if (receiver_) work.destination.srqn = peer_->shared_queues_[index % 2];
  work.sge_count = 0;
  fill_elements(message, work);
  const Region& remote = message.is_atomic()                                      ? peer_->counter_
                         : message.opcode == Opcode::kRead && message.reread == 0 ? peer_->source_
                                                                                  : peer_->target_;
  work.rkey = remote.key;
  work.remote_address = remote.start;
  if (message.is_write()) work.remote_address += message.target;
  if (message.opcode == Opcode::kRead)
    work.remote_address += message.reread ? plan_.messages[message.reread - 1].target : message.source;
  if (message.flaw == Flaw::kWrongLocalKey) work.sges[work.sge_count - 1].lkey ^= 0x5a00;
  if (message.flaw == Flaw::kWrongKey) work.rkey ^= 0x5a00;
  if (message.flaw == Flaw::kMisaligned) work.remote_address += 4;
  if (plan_.type == QpType::kUd) {
    work.destination.gid = address_of(peer_->host());
    work.destination.qpn = peer_->number_;
    work.destination.qkey = kQkey;
  }
  next = index + 1;
  return Fetch::kWork;
}

SendQueue::Performed End::perform(uint32_t index, bool outstanding, Status&, const char*&) {
  if (outstanding && random_.one_in(2)) return Performed::kLater;
  performed_[index]++;
  return Performed::kDone;
}

ReceiveQueue::Take End::take(ReceiveWork& work, const char*&) {
  if (receives_taken_ == receives_posted_) {
    empty_takes_++;
    return Take::kNone;
  }
  work.index = receives_taken_++;
  work.sge_count = 0;
  const uint64_t at = inbox_.start + uint64_t{work.index} * capacity_;
  const uint32_t half = capacity_ / 2;
  if (half > 0 && work.index % 2) work.sges[work.sge_count++] = {at, half, inbox_.key};
  const uint32_t done = work.sge_count > 0 ? half : 0;
  if (capacity_ > 0) work.sges[work.sge_count++] = {at + done, capacity_ - done, inbox_.key};
  return Take::kWork;
}

std::string End::state() const {
  return "host " + std::to_string(host_.number()) + " qp " + std::to_string(number_) +
         (is_dead() ? " (gone)" : std::string(" state ") + std::to_string(static_cast<int>(qp_->state()))) +
         ": posted " + std::to_string(posted_) + ", begun " + std::to_string(begun_) + ", ended " +
         std::to_string(ended_) + " of " + std::to_string(plan_.messages.size()) + "; receives posted " +
         std::to_string(receives_posted_) + ", taken " + std::to_string(receives_taken_) + ", ended " +
         std::to_string(receives_ended_) + (failed_ ? ", has failed" : "");
}

}  // namespace verbatim::simulation
