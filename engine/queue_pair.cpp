// SPDX-License-Identifier: MIT
#include "engine/queue_pair.h"

#include <cerrno>
#include <utility>

#include "engine/traffic.h"
#include "engine/transitions.h"

namespace verbatim::engine {

namespace {

constexpr int kTriesToHoldOff = 200;
/// Where a queue pair that names no peer sends its packets, for their length.
constexpr Gid kSomeIpv4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}};

wire::Transport transport_of(QpType type) {
  switch (type) {
    case QpType::kRc:
      return wire::Transport::kRc;
    case QpType::kUc:
      return wire::Transport::kUc;
    case QpType::kUd:
    case QpType::kRaw:
      return wire::Transport::kUd;
    case QpType::kDci:
    case QpType::kDct:
      return wire::Transport::kDc;
    case QpType::kXrcSend:
    case QpType::kXrcReceive:
      return wire::Transport::kXrc;
  }
  return wire::Transport::kRc;
}

}  // namespace

QueuePair::QueuePair(Engine& engine, const QueuePairSpec& spec, uint32_t number, PublishedQp& published,
                     PublishedTraffic& traffic)
    : engine_(engine),
      spec_(spec),
      number_(number),
      transport_(transport_of(spec.type)),
      published_(published),
      traffic_(traffic),
      frame_bytes_(engine::frame_bytes(*spec.port, kSomeIpv4, false)),
      requester_(engine, *this),
      responder_(engine, *this),
      target_(spec.type == QpType::kDct ? std::make_unique<DcTarget>(engine, *this) : nullptr) {
  published_.transport.store(static_cast<uint8_t>(spec.type), std::memory_order_relaxed);
  published_.domain.store(spec.domain, std::memory_order_relaxed);
  show_port();
  published_.device.store(static_cast<uint16_t>(spec.port->device), std::memory_order_relaxed);
  published_.access_key.store(spec.access_key, std::memory_order_relaxed);
  published_.xrc_domain.store(spec.xrc_domain, std::memory_order_relaxed);
  for (auto* counter :
       {&published_.send_messages, &published_.send_bytes, &published_.receive_messages,
        &published_.receive_bytes, &published_.rnr_naks, &published_.retries, &published_.errors})
    counter->store(0, std::memory_order_relaxed);
  publish(QpState::kReset);
  published_.qpn.store(number, std::memory_order_release);
}

void QueuePair::publish(QpState to) {
  published_.access.store(attributes_.access & ~told_of_.load(std::memory_order_relaxed),
                          std::memory_order_relaxed);
  published_.remote_qpn.store(attributes_.dest_qpn, std::memory_order_relaxed);
  published_.first_psn.store(attributes_.rq_psn, std::memory_order_relaxed);
  published_.path_mtu.store(attributes_.path_mtu, std::memory_order_relaxed);
  published_.max_dest_rd_atomic.store(attributes_.max_dest_rd_atomic, std::memory_order_relaxed);
  published_.min_rnr_timer.store(attributes_.min_rnr_timer, std::memory_order_relaxed);
  published_.state.store(static_cast<uint8_t>(to), std::memory_order_release);
}

Outcome QueuePair::check(const QpAttributes& a, uint32_t mask, QpState& from, QpState& to) {
  from = state();
  // The caller may know of an error transition that it has not seen completed yet (IBA 11.2.5.2).
  if ((mask & kQpCurState) && a.current_state != from)
    return Error{EINVAL, std::string("the current state is ") + state_name(from) + ", not " +
                             state_name(a.current_state)};
  to = mask & kQpState ? a.state : from;
  if (static_cast<uint8_t>(to) > static_cast<uint8_t>(QpState::kError) || to == QpState::kSqe)
    return Error{EINVAL, "the target state is not one that can be asked for"};
  if (std::string why = check_transition(spec_.type, from, to, mask); !why.empty()) return Error{EINVAL, why};
  if (std::string why = check_attributes(a, mask); !why.empty()) return Error{EINVAL, why};
  if (std::string why = check_migration(a, mask); !why.empty()) return Error{EINVAL, why};
  const uint32_t entries = spec_.port->pkey_entries();
  if (((mask & kQpPkeyIndex) && a.pkey_index >= entries) ||
      ((mask & kQpAltPath) && a.alternate_pkey_index >= entries))
    return Error{EINVAL, "the P_Key table has entries 0 to " + std::to_string(entries - 1)};
  if (mask & kQpAv)
    if (std::string why = check_path(*spec_.port, engine_.host(), a.path, spec_.type); !why.empty())
      return Error{EINVAL, why};
  return Done{};
}

void QueuePair::apply(const QpAttributes& a, uint32_t mask) {
  QpAttributes& mine = attributes_;
  if (mask & kQpAccessFlags) mine.access = a.access;
  if (mask & kQpPkeyIndex) {
    mine.pkey_index = a.pkey_index;
    pkey_index_ = a.pkey_index;
    show_port();
  }
  if (mask & kQpPort) mine.port = a.port;
  if (mask & kQpQkey) mine.qkey = a.qkey;
  if (mask & kQpAv) mine.path = a.path;
  if (mask & kQpPathMtu) mine.path_mtu = a.path_mtu;
  if (mask & kQpTimeout) mine.timeout = a.timeout;
  if (mask & kQpRetryCnt) mine.retry_count = a.retry_count;
  if (mask & kQpRnrRetry) mine.rnr_retry = a.rnr_retry;
  if (mask & kQpRqPsn) mine.rq_psn = a.rq_psn & wire::kPsnMask;
  if (mask & kQpSqPsn) mine.sq_psn = a.sq_psn & wire::kPsnMask;
  if (mask & kQpMaxQpRdAtomic) mine.max_rd_atomic = a.max_rd_atomic;
  if (mask & kQpMaxDestRdAtomic) mine.max_dest_rd_atomic = a.max_dest_rd_atomic;
  if (mask & kQpMinRnrTimer) mine.min_rnr_timer = a.min_rnr_timer;
  if (mask & kQpDestQpn) mine.dest_qpn = a.dest_qpn;
  if (mask & kQpRateLimit) mine.rate_limit = a.rate_limit;
  if (mask & kQpEnSqdAsyncNotify) mine.en_sqd_async_notify = a.en_sqd_async_notify;
  if (mask & kQpAltPath) {
    mine.alternate_path = a.alternate_path;
    mine.alternate_pkey_index = a.alternate_pkey_index;
    mine.alternate_port = a.alternate_port;
    mine.alternate_timeout = a.alternate_timeout;
  }
}

// Packets may come before this end sends any.
void QueuePair::expect_peer() {
  if (spec_.port->is_infiniband() || spec_.type == QpType::kDci) return;
  const bool anyone = spec_.type == QpType::kUd || spec_.type == QpType::kDct;
  engine_.fabric().expect(anyone ? Gid{} : attributes_.path.dgid);
}

Outcome QueuePair::modify(const QpAttributes& a, uint32_t mask) {
  std::lock_guard<std::mutex> one_at_a_time(modify_lock_);
  QpState from, to;
  bool run = false, moved = false;
  {
    std::lock_guard<SpinLock> hold_requester(requester_.lock());
    std::lock_guard<SpinLock> hold_responder(responder_.lock());
    if (Outcome checked = check(a, mask, from, to); !checked) return checked;
    apply(a, mask);
    if (spec_.type == QpType::kDct) attributes_.max_dest_rd_atomic = kReadsMax;
    if (to == QpState::kReset) {
      attributes_ = QpAttributes{};
      requester_.reset();
      responder_.reset();
    } else if (from == QpState::kReset) {
      published_.generation.fetch_add(1, std::memory_order_relaxed);
    }
    if (mask & (kQpDestQpn | kQpAv))
      aim();
    else if (mask & kQpPkeyIndex)
      requester_.change_partition(pkey());
    if (mask & kQpPathMigState) moved = apply_migration(a.path_mig_state);
    if (mask & kQpRqPsn) responder_.connect(attributes_.rq_psn);
    if (mask & kQpSqPsn) requester_.connect(attributes_.sq_psn);
    state_.store(to, std::memory_order_release);
    publish(to);
    if (to == QpState::kError && from != QpState::kError) {
      requester_.flush();
      responder_.flush();
    }
    if (to == QpState::kSqd && from != QpState::kSqd && requester_.idle()) note_drained();
    run = to == QpState::kRts && from != QpState::kRts && spec_.send;
  }
  // Peers that were inside an access to this queue pair's memory have left it when the state change is
  // reported.
  if ((to == QpState::kError || to == QpState::kReset) && from != to && from != QpState::kInit)
    engine_.fabric().wait_for_peers();
  if ((to == QpState::kRtr && from != to) || moved) expect_peer();
  if (run || moved) ring();
  // What was posted is flushed also when nobody polls: a program may sleep on a completion channel.
  if (to == QpState::kError && from != to) engine_.schedule(*this);
  return Done{};
}

// The attributes name the peer of RC, UC and XRC; a DC initiator's work requests name its targets.
void QueuePair::aim() {
  if (spec_.type == QpType::kDci || spec_.type == QpType::kDct) return;
  if (!spec_.port->is_infiniband()) source_ = engine_.host().gid(attributes_.path.sgid_index);
  frame_bytes_ = engine::frame_bytes(*spec_.port, attributes_.path.dgid, attributes_.path.is_global);
  // An XRC connection goes one way.
  if (spec_.type != QpType::kXrcReceive)
    requester_.aim({attributes_.path.dgid, attributes_.path.dlid, attributes_.dest_qpn, pkey()});
  if (spec_.type != QpType::kXrcSend) responder_.aim(attributes_.dest_qpn);
}

void QueuePair::address(wire::Segment& segment) const {
  segment.has_grh = true;
  segment.flags |= wire::kAddressed;
  segment.source_gid = source_.gid;
  segment.gid_type = source_.type;
  segment.dest_gid = attributes_.path.dgid;
  segment.flow_label = attributes_.path.flow_label;
  segment.traffic_class = attributes_.path.traffic_class;
  segment.hop_limit = attributes_.path.hop_limit;
}

QpAttributes QueuePair::query() {
  std::lock_guard<SpinLock> hold_requester(requester_.lock());
  std::lock_guard<SpinLock> hold_responder(responder_.lock());
  QpAttributes copy = attributes_;
  copy.state = copy.current_state = state();
  copy.sq_draining = copy.state == QpState::kSqd && !requester_.idle();
  return copy;
}

Expected<uint32_t> QueuePair::resting_send_position() {
  std::lock_guard<SpinLock> hold(requester_.lock());
  if (state() != QpState::kSqd) return Error{EINVAL, "the queue pair is not in state SQD"};
  return requester_.position();
}

// A datagram's request has ended when it is sent, and programs expect to hear of that before they hear of the
// answer: arrivals are not taken in meanwhile. Unless somebody is just doing so, who may be this very thread.
void QueuePair::ring() {
  if (requester_.reliable()) return requester_.ring();
  SpinLock& arrivals = engine_.progress_lock();
  bool held = arrivals.try_lock();
  for (int tries = 0; !held && tries < kTriesToHoldOff; tries++) {
    spin_pause();
    held = arrivals.try_lock();
  }
  requester_.ring();
  if (held) arrivals.unlock();
}

void QueuePair::fail(AsyncEvent event, const char* why) {
  if (state() == QpState::kReset) return;  // nothing of it can have been lost
  engine_.explain(number_, static_cast<int>(Status::kLocalQpOperation), 0, why);
  if (spec_.events) spec_.events->on_event(event);
  enter_error();
  engine_.schedule(*this);
}

void QueuePair::enter_error(QpState target) {
  // The program may be resetting it meanwhile: what failed is gone then.
  QpState now = state();
  do
    if (now == QpState::kError || now == QpState::kReset) return;
  while (!state_.compare_exchange_weak(now, target, std::memory_order_acq_rel, std::memory_order_acquire));
  published_.state.store(static_cast<uint8_t>(target), std::memory_order_release);
  published_.errors.fetch_add(1, std::memory_order_relaxed);
  engine_.schedule(*this);
}

// In the same process a request is answered while its sender is still in the call: it is to know that the
// request has arrived before it hears what came of it.
void QueuePair::let_peer_finish() {
  AccessScope scope;
  QueuePair* peer = engine_.find(published_.remote_qpn.load(std::memory_order_relaxed));
  if (!peer || peer == this) return;
  const std::lock_guard<SpinLock> pass(peer->requester_.lock());
}

void QueuePair::run_ready() {
  if (migration_wish_.load(std::memory_order_relaxed) != kNoWish) [[unlikely]]
    settle_migration();
  const QpState now = state();
  // Asked again under each lock: the program may be resetting the queue pair.
  if (now == QpState::kError || now == QpState::kSqe) {
    {
      std::lock_guard<SpinLock> hold(requester_.lock());
      if (state() == now) requester_.flush();
    }
    if (now == QpState::kError) {
      std::lock_guard<SpinLock> hold(responder_.lock());
      if (state() == now) responder_.flush();
    }
    if (now == QpState::kError) responder_.flush_posted();
    // A refusal may still be owed to the peer.
  }
  const uint32_t room = engine_.room_epoch();
  if (!send_owed()) engine_.wait_for_room(*this, room);
  if (spec_.sends_by_itself) [[unlikely]]
    let_peer_finish();
  if (now != QpState::kError && now != QpState::kSqe && spec_.send) requester_.run();
}

void QueuePair::take_port() {
  const uint16_t before = pkey();
  show_port();
  if (pkey() == before) return;
  std::lock_guard<SpinLock> hold(requester_.lock());
  requester_.change_partition(pkey());
}

void QueuePair::show_port() {
  published_.lid.store(spec_.port->lid, std::memory_order_relaxed);
  const uint16_t now = spec_.port->pkey(pkey_index_.load(std::memory_order_relaxed));
  if (now == pkey()) return;
  published_.pkey.store(now, std::memory_order_relaxed);
  // Peers that reach into its memory look again.
  published_.generation.fetch_add(1, std::memory_order_release);
}

void QueuePair::count(PortCount what) { count_port(engine_.published(), spec_.port->device, what); }

void QueuePair::drain_by_itself() {
  drained_by_itself_ = true;
  state_.store(QpState::kSqd, std::memory_order_release);
  published_.state.store(static_cast<uint8_t>(QpState::kSqd), std::memory_order_release);
}

void QueuePair::note_key_violation() {
  key_violations_.fetch_add(1, std::memory_order_relaxed);
  if (key_violation_armed_.exchange(false) && spec_.events)
    spec_.events->on_event(AsyncEvent::kTargetKeyViolation);
}

void QueuePair::begin_as_guest(const QpAttributes& attributes) {
  attributes_ = attributes;
  responder_.aim(attributes.dest_qpn);
  state_.store(QpState::kRtr, std::memory_order_release);
}

void QueuePair::part() {
  (void)send_owed();
  if (spec_.type == QpType::kXrcReceive) {
    std::lock_guard<SpinLock> hold(responder_.lock());
    responder_.end_relay();
  }
  requester_.part();
}

Outcome QueuePair::reset_stream(uint16_t stream) {
  if (spec_.type != QpType::kDci) return Error{EINVAL, "only a DC initiator has streams"};
  if (state() != QpState::kRts) return Error{EINVAL, "streams are reset in RTS"};
  if (Outcome done = requester_.reset_stream(stream); !done) return done;
  ring();
  return Done{};
}

void QueuePair::note_drained() {
  const bool tells = attributes_.en_sqd_async_notify || std::exchange(drained_by_itself_, false);
  if (tells && spec_.events) spec_.events->on_event(AsyncEvent::kSqDrained);
}

}  // namespace verbatim::engine
