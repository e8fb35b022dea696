// SPDX-License-Identifier: MIT
#include "engine/dc_target.h"

#include <mutex>

#include "engine/engine.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::Segment;

namespace {

constexpr uint64_t kLateNs = 4'000'000'000;  ///< no packet is on its way for longer
constexpr uint32_t kLooksForRoom = 64;       ///< initiators asked whether they can be forgotten

/// Connections are numbered in the order in which their process made them.
bool is_later(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

}  // namespace

bool DcTarget::on_request(wire::Channel& from, const Segment& segment, wire::Payload& payload,
                          Segment* answer) {
  if (!from.is_wire()) [[likely]]
    return deliver({&from, Gid{}, segment.src_qpn}, from, segment, payload, answer);
  if (segment.access_key != qp_.spec().access_key) return refuse_stranger(from, segment);
  return deliver({nullptr, segment.source_gid, segment.src_qpn}, from, segment, payload, answer);
}

bool DcTarget::deliver(const Key& key, wire::Channel& from, const Segment& segment, wire::Payload& payload,
                       Segment* answer) {
  std::lock_guard<SpinLock> hold(lock_);
  if (segment.operation == wire::Operation::kDisconnect) {
    disconnect(key, segment.connection);
    return false;
  }
  Initiator* initiator = find(key);
  if (!initiator || initiator->responder.connection() != segment.connection)
    initiator = connect(key, segment);
  if (!initiator) return Engine::answer_nobody(from, segment, answer);
  if (!key.channel) {
    initiator->heard_ns = engine_.clock().now_ns();
    if (initiator->ended) return false;
    Segment packet = segment;
    packet.base_psn = packet.psn;
    packet.src_qpn = wire::kUnknownQpn;
    const bool owes = initiator->responder.on_request(from, packet, payload, nullptr);
    look_whether_drained();
    return owes;
  }
  const bool answered = initiator->responder.on_request(from, segment, payload, answer);
  look_whether_drained();
  return answered;
}

// Addresses and numbers can be made up: who does not have the key changes nothing of those who do.
bool DcTarget::refuse_stranger(wire::Channel& from, const Segment& segment) {
  if (segment.operation == wire::Operation::kDisconnect || qp_.state() != QpState::kRtr) return false;
  qp_.note_key_violation();
  engine_.explain(qp_.number(), static_cast<int>(Status::kRemoteAccess), segment.psn,
                  "the access key is not the DC target's");
  Segment refusal;
  refusal.operation = wire::Operation::kAck;
  refusal.transport = wire::Transport::kDc;
  refusal.flags = wire::kFirst | wire::kLast;
  refusal.dest_qpn = segment.src_qpn;
  refusal.src_qpn = qp_.number();
  refusal.psn = segment.base_psn;  // of the first that was not answered: a later one would acknowledge it
  refusal.path_mtu = qp_.attributes().path_mtu;
  refusal.syndrome = wire::kNakRemoteAccess;
  refusal.access_key = 0;
  refusal.connection = segment.connection;
  refusal.has_grh = true;
  refusal.source_gid = segment.dest_gid;
  refusal.dest_gid = segment.source_gid;
  refusal.gid_type = GidType::kRoceV2;
  refusal.traffic_class = segment.traffic_class;
  refusal.hop_limit = qp_.attributes().path.hop_limit;
  from.send(refusal, nullptr, 0, false, nullptr);
  return false;
}

DcTarget::Initiator* DcTarget::find(const Key& key) {
  if (!initiators_.empty() && initiators_.front().key == key) return &initiators_.front();
  const auto place = places_.find(key);
  if (place == places_.end()) return nullptr;
  initiators_.splice(initiators_.begin(), initiators_, place->second);
  return &initiators_.front();
}

// The initiator whose connection the segment belongs to; nullptr: none that could be known.
DcTarget::Initiator* DcTarget::connect(const Key& key, const Segment& segment) {
  if (segment.transport != wire::Transport::kDc || !segment.has(wire::kOpens) ||
      qp_.state() != QpState::kRtr || phase() != Phase::kActive)
    return nullptr;
  Initiator* initiator = find(key);
  if (initiator) {
    const bool later = is_later(segment.connection, initiator->responder.connection());
    if (!later && (key.channel || may_be_late(*initiator))) return nullptr;
  } else {
    if (initiators_.size() >= kInitiatorsMax && !make_room()) return nullptr;
    initiator = &initiators_.emplace_front(engine_, qp_, key);
    places_.emplace(key, initiators_.begin());
  }
  qp_.count(PortCount::kDcConnections);
  initiator->responder.reconnect(key.qpn, segment.connection, segment.base_psn);
  initiator->ended = false;
  return initiator;
}

// The host has been heard of a moment ago: packets of a former connection may still be on their way. After
// that an earlier number is one of a new process.
bool DcTarget::may_be_late(const Initiator& initiator) const {
  return !initiator.key.channel && engine_.clock().now_ns() < initiator.heard_ns + kLateNs;
}

bool DcTarget::make_room() {
  auto at = initiators_.end();
  for (uint32_t looks = 0; looks < kLooksForRoom && at != initiators_.begin(); looks++) {
    --at;
    if (!at->responder.is_idle() || may_be_late(*at)) continue;
    erase(at);
    return true;
  }
  return false;
}

// One that still owes something stays until room is needed.
void DcTarget::disconnect(const Key& key, uint32_t connection) {
  Initiator* initiator = find(key);
  if (!initiator || initiator->responder.connection() != connection) return;
  initiator->responder.reconnect(key.qpn, connection, 0);
  if (!key.channel)
    initiator->ended = true;
  else if (initiator->responder.is_idle())
    erase(initiators_.begin());
}

void DcTarget::erase(Initiators::iterator at) {
  places_.erase(at->key);
  initiators_.erase(at);
}

bool DcTarget::send_owed() {
  std::lock_guard<SpinLock> hold(lock_);
  bool room = true;
  for (Initiator& initiator : initiators_)
    if (initiator.responder.may_owe()) room &= initiator.responder.send_owed();
  return room;
}

// The engine's list of those that owe answers must not name them any more: it is not in use meanwhile.
void DcTarget::forget(wire::Channel& gone) {
  std::lock_guard<SpinLock> hold(lock_);
  for (auto at = initiators_.begin(); at != initiators_.end();) {
    const auto next = std::next(at);
    if (at->key.channel == &gone) {
      at->responder.reconnect(at->key.qpn, at->responder.connection(), 0);
      if (at->responder.is_idle()) erase(at);
    }
    at = next;
  }
}

void DcTarget::drain() {
  std::lock_guard<SpinLock> hold(lock_);
  if (phase() != Phase::kActive) return;
  phase_ = Phase::kDraining;
  look_whether_drained();
}

void DcTarget::note_answered() {
  if (phase() != Phase::kDraining) return;
  std::lock_guard<SpinLock> hold(lock_);
  look_whether_drained();
}

// With the lock held.
void DcTarget::look_whether_drained() {
  if (phase() != Phase::kDraining) return;
  for (Initiator& initiator : initiators_)
    if (!initiator.responder.is_idle()) return;
  phase_ = Phase::kDrained;
  if (qp_.spec().events) qp_.spec().events->on_event(AsyncEvent::kTargetDrained);
}

void DcTarget::close() {
  std::lock_guard<SpinLock> hold(lock_);
  for (Initiator& initiator : initiators_) initiator.responder.reconnect(initiator.key.qpn, 0, 0);
  places_.clear();
  initiators_.clear();
}

size_t DcTarget::initiators() {
  std::lock_guard<SpinLock> hold(lock_);
  return initiators_.size();
}

}  // namespace verbatim::engine
