// SPDX-License-Identifier: MIT
#include "agent/cm/connections.h"

#include <algorithm>
#include <cerrno>

namespace verbatim::agent::cm {

using namespace roce::cm;

namespace {

constexpr uint8_t kLastRetries = 3;                 ///< of those whose owner has gone
constexpr uint64_t kAnswerKeptNs = 16'000'000'000;  ///< a SIDR_REP, should the question come again
constexpr uint64_t kMillisecond = 1'000'000;

Outcome not_now(const char* what) { return Error{EINVAL, std::string("the connection is not at ") + what}; }

}  // namespace

uint64_t Connections::deadline_ns() const {
  const uint64_t timer = timers_.empty() ? kNever : timers_.begin()->first;
  return std::min(timer, held_due_ns_);
}

void Connections::step() {
  while (!timers_.empty() && timers_.begin()->first <= now_ns_) {
    Entry& due = entries_.at(timers_.begin()->second);
    set_due(due, kNever);
    expired(due);
  }
  if (now_ns_ >= held_due_ns_) see_held_again();
}

const Connection* Connections::find(uint32_t comm_id) const {
  const auto found = entries_.find(comm_id);
  return found == entries_.end() ? nullptr : &found->second.connection;
}

Connections::Entry* Connections::entry(uint32_t comm_id) {
  const auto found = entries_.find(comm_id);
  return found == entries_.end() ? nullptr : &found->second;
}

uint32_t Connections::add(Connection connection, uint64_t owner) {
  Entry& made = entries_[connection.local_comm_id];
  made.connection = connection;
  made.owner = owner;
  return connection.local_comm_id;
}

uint32_t Connections::new_comm_id() {
  do next_comm_id_++;
  while (next_comm_id_ == 0 || entries_.count(next_comm_id_) != 0);
  return next_comm_id_;
}

void Connections::erase(uint32_t comm_id) {
  const auto found = entries_.find(comm_id);
  if (found == entries_.end()) return;
  set_due(found->second, kNever);
  forget_index(found->second);
  entries_.erase(found);
}

void Connections::set_due(Entry& entry, uint64_t due_ns) {
  const uint32_t id = entry.connection.local_comm_id;
  if (entry.due_ns != kNever) timers_.erase({entry.due_ns, id});
  entry.due_ns = due_ns;
  if (due_ns != kNever) timers_.insert({due_ns, id});
}

Connections::RemoteKey Connections::remote_key(const Connection& connection, uint32_t number) {
  return {connection.path.remote_gid.bytes, connection.remote_guid, number};
}

void Connections::index(const Entry& entry) {
  const Connection& c = entry.connection;
  if (c.remote_comm_id != 0) by_remote_id_[remote_key(c, c.remote_comm_id)] = c.local_comm_id;
  const bool ended = c.phase == Phase::kDreqReceived || c.phase == Phase::kTimewait;
  if (c.remote_qpn != 0 && !ended) by_remote_qpn_[remote_key(c, c.remote_qpn)] = c.local_comm_id;
}

void Connections::forget_qpn(const Entry& entry) {
  const auto found = by_remote_qpn_.find(remote_key(entry.connection, entry.connection.remote_qpn));
  if (found != by_remote_qpn_.end() && found->second == entry.connection.local_comm_id)
    by_remote_qpn_.erase(found);
}

void Connections::forget_index(const Entry& entry) {
  forget_qpn(entry);
  const auto found = by_remote_id_.find(remote_key(entry.connection, entry.connection.remote_comm_id));
  if (found != by_remote_id_.end() && found->second == entry.connection.local_comm_id)
    by_remote_id_.erase(found);
}

void Connections::send(const Entry& entry, Body body, const Enhancement& ece) {
  const Connection& c = entry.connection;
  Message message = Message::of(std::move(body), c.transaction);
  message.header.modifier = ece.options;
  std::array<uint8_t, roce::kMadBytes> mad{};
  message.emit(mad);
  wire_.send(c.path.local_gid, c.path.remote_gid, mad);
}

// It goes out again until somebody calls `stop`.
void Connections::send_pending(Entry& entry, Body body, const Enhancement& ece) {
  Connection& c = entry.connection;
  Message message = Message::of(std::move(body), c.transaction);
  message.header.modifier = ece.options;
  message.emit(c.pending);
  c.has_pending = true;
  c.patient = false;
  set_due(entry, now_ns_ + c.timeout_ms * kMillisecond);
  wire_.send(c.path.local_gid, c.path.remote_gid, c.pending);
}

void Connections::stop(Entry& entry) {
  set_due(entry, kNever);
  entry.connection.patient = false;
}

void Connections::enter_idle(Entry& entry) {
  stop(entry);
  forget_index(entry);
  entry.connection.phase = Phase::kIdle;
  entry.connection.has_pending = false;
}

void Connections::enter_timewait(Entry& entry) {
  stop(entry);
  forget_qpn(entry);
  entry.connection.phase = Phase::kTimewait;
  entry.connection.has_pending = false;
  set_due(entry, now_ns_ + milliseconds(entry.connection.ack_timeout) * kMillisecond);
}

// Last in whatever calls it: the owner may let the connection go.
void Connections::tell(Entry& entry, const Happening& what) {
  const uint32_t id = entry.connection.local_comm_id;
  if (entry.owner != 0)
    user_.happened(entry.owner, entry.connection, what);
  else if (entry.connection.phase == Phase::kIdle)
    erase(id);
}

void Connections::expired(Entry& entry) {
  Connection& c = entry.connection;
  switch (c.phase) {
    case Phase::kReqSent:
    case Phase::kRepSent:
    case Phase::kSidrReqSent:
    case Phase::kDreqSent:
      if (c.retries_left > 0) {
        c.retries_left--;
        c.patient = false;
        set_due(entry, now_ns_ + c.timeout_ms * kMillisecond);
        return wire_.send(c.path.local_gid, c.path.remote_gid, c.pending);
      }
      if (c.phase == Phase::kDreqSent) {
        enter_timewait(entry);
        return tell(entry, {.kind = Happening::Kind::kDisconnected, .timed_out = true});
      }
      enter_idle(entry);
      return tell(entry, {.kind = Happening::Kind::kUnreachable});
    case Phase::kTimewait:
    case Phase::kSidrAnswered: {
      const bool connected = c.phase == Phase::kTimewait;
      enter_idle(entry);
      if (connected || entry.owner == 0) tell(entry, {.kind = Happening::Kind::kTimewaitOver});
      return;
    }
    case Phase::kIdle:
    case Phase::kReqReceived:
    case Phase::kRepReceived:
    case Phase::kEstablished:
    case Phase::kDreqReceived:
    case Phase::kSidrReqReceived:
      return;
  }
}

uint32_t Connections::connect(uint64_t owner, Connection connection, Req req, const Enhancement& ece) {
  connection.active = true;
  connection.phase = Phase::kReqSent;
  connection.local_comm_id = new_comm_id();
  connection.transaction = kTransactions | connection.local_comm_id;
  connection.retries_left = connection.max_retries;
  req.local_comm_id = connection.local_comm_id;
  req.local_ca_guid = guid_;
  req.vendor_id = ece.vendor_id;
  Entry& made = *entry(add(connection, owner));
  send_pending(made, req, ece);
  return connection.local_comm_id;
}

uint32_t Connections::connect_datagram(uint64_t owner, Connection connection, SidrReq req) {
  connection.active = true;
  connection.phase = Phase::kSidrReqSent;
  connection.local_comm_id = new_comm_id();
  connection.transaction = kTransactions | connection.local_comm_id;
  connection.retries_left = connection.max_retries;
  req.request_id = connection.local_comm_id;
  Entry& made = *entry(add(connection, owner));
  send_pending(made, req);
  return connection.local_comm_id;
}

Outcome Connections::accept(uint32_t comm_id, Rep rep, const Enhancement& ece) {
  Entry* found = entry(comm_id);
  if (!found || found->connection.phase != Phase::kReqReceived) return not_now("a request");
  Connection& c = found->connection;
  rep.local_comm_id = c.local_comm_id;
  rep.remote_comm_id = c.remote_comm_id;
  rep.local_ca_guid = guid_;
  rep.vendor_id = ece.vendor_id;
  c.phase = Phase::kRepSent;
  c.local_qpn = rep.local_qpn != 0 ? rep.local_qpn : rep.local_eecn;
  c.local_psn = rep.starting_psn;
  c.responder_resources = rep.responder_resources;
  c.initiator_depth = rep.initiator_depth;
  c.srq = rep.srq;
  c.retries_left = c.max_retries;
  send_pending(*found, rep, ece);
  return Done{};
}

Outcome Connections::answer_datagram(uint32_t comm_id, SidrRep rep, const Enhancement& ece) {
  Entry* found = entry(comm_id);
  if (!found || found->connection.phase != Phase::kSidrReqReceived) return not_now("a request");
  rep.request_id = found->connection.remote_comm_id;
  rep.service_id = found->connection.service_id;
  rep.vendor_id = ece.vendor_id;
  found->connection.phase = Phase::kSidrAnswered;
  send_pending(*found, rep, ece);
  set_due(*found, now_ns_ + kAnswerKeptNs);
  return Done{};
}

Outcome Connections::ready(uint32_t comm_id) {
  Entry* found = entry(comm_id);
  if (!found || found->connection.phase != Phase::kRepReceived) return not_now("a reply");
  found->connection.phase = Phase::kEstablished;
  send_rtu(*found);
  return Done{};
}

void Connections::send_rtu(Entry& entry) {
  Rtu rtu;
  rtu.local_comm_id = entry.connection.local_comm_id;
  rtu.remote_comm_id = entry.connection.remote_comm_id;
  send(entry, rtu);
}

Outcome Connections::reject(uint32_t comm_id, RejectReason reason, std::span<const uint8_t> private_data) {
  Entry* found = entry(comm_id);
  if (!found) return not_now("a request");
  const Connection& c = found->connection;
  Rej rej;
  rej.local_comm_id = c.local_comm_id;
  rej.remote_comm_id = c.remote_comm_id;
  rej.reason = reason;
  if (c.phase == Phase::kReqReceived)
    rej.message = Answered::kReq;
  else if (c.phase == Phase::kRepReceived)
    rej.message = Answered::kRep;
  else if (c.phase == Phase::kReqSent || c.phase == Phase::kRepSent)
    rej.message = Answered::kOther;
  else
    return not_now("what can be rejected");
  if (reason == RejectReason::kTimeout) {
    rej.info_length = sizeof guid_;
    for (size_t i = 0; i < sizeof guid_; i++) rej.info[i] = static_cast<uint8_t>(guid_ >> (56 - 8 * i));
  }
  std::copy_n(private_data.begin(), std::min(private_data.size(), rej.private_data.size()),
              rej.private_data.begin());
  send(*found, rej);
  enter_idle(*found);
  return Done{};
}

void Connections::send_dreq(Entry& entry, uint8_t retries) {
  Connection& c = entry.connection;
  Dreq dreq;
  dreq.local_comm_id = c.local_comm_id;
  dreq.remote_comm_id = c.remote_comm_id;
  dreq.remote_qpn = c.remote_qpn;
  c.phase = Phase::kDreqSent;
  c.retries_left = retries;
  send_pending(entry, dreq);
}

void Connections::send_drep(Entry& entry) {
  Drep drep;
  drep.local_comm_id = entry.connection.local_comm_id;
  drep.remote_comm_id = entry.connection.remote_comm_id;
  send(entry, drep);
}

Outcome Connections::disconnect(uint32_t comm_id) {
  Entry* found = entry(comm_id);
  if (found && found->connection.phase == Phase::kEstablished) {
    send_dreq(*found, found->connection.max_retries);
    return Done{};
  }
  if (!found || found->connection.phase != Phase::kDreqReceived) return not_now("what can be disconnected");
  send_drep(*found);
  enter_timewait(*found);
  return Done{};
}

Outcome Connections::establish(uint32_t comm_id) {
  Entry* found = entry(comm_id);
  if (found && found->connection.phase == Phase::kEstablished)
    return Error{EISCONN, "the connection is established"};
  if (!found || found->connection.phase != Phase::kRepSent) return not_now("a reply that was sent");
  stop(*found);
  found->connection.phase = Phase::kEstablished;
  tell(*found, {.kind = Happening::Kind::kEstablished});
  return Done{};
}

void Connections::release(uint32_t comm_id) {
  Entry* found = entry(comm_id);
  if (!found) return;
  found->owner = 0;
  switch (found->connection.phase) {
    case Phase::kReqSent:
      (void)reject(comm_id, RejectReason::kTimeout, {});
      return erase(comm_id);
    case Phase::kReqReceived:
    case Phase::kRepSent:
    case Phase::kRepReceived:
      (void)reject(comm_id, RejectReason::kByConsumer, {});
      return erase(comm_id);
    case Phase::kEstablished:
      return send_dreq(*found, std::min(found->connection.max_retries, kLastRetries));
    case Phase::kDreqSent:
      found->connection.retries_left = std::min(found->connection.retries_left, kLastRetries);
      return;
    case Phase::kDreqReceived:
      (void)disconnect(comm_id);
      return;
    case Phase::kSidrReqReceived: {
      SidrRep rep;
      rep.status = SidrStatus::kRejected;
      (void)answer_datagram(comm_id, rep, {});
      return;
    }
    case Phase::kTimewait:
    case Phase::kSidrAnswered:
      return;
    case Phase::kIdle:
    case Phase::kSidrReqSent:
      return erase(comm_id);
  }
}

void Connections::set_owner(uint32_t comm_id, uint64_t owner) {
  if (Entry* found = entry(comm_id)) found->owner = owner;
}

Outcome Connections::restore(uint64_t owner, const Connection& connection) {
  const uint32_t id = connection.local_comm_id;
  if (id == 0 || entries_.count(id) != 0) return Error{EBUSY, "the communication id is in use"};
  Entry& made = *entry(add(connection, owner));
  if (made.connection.phase != Phase::kIdle) index(made);
  const bool repeats = connection.phase == Phase::kReqSent || connection.phase == Phase::kRepSent ||
                       connection.phase == Phase::kSidrReqSent || connection.phase == Phase::kDreqSent;
  if (repeats && connection.has_pending)
    set_due(made, now_ns_);
  else if (connection.phase == Phase::kTimewait)
    enter_timewait(made);
  else if (connection.phase == Phase::kSidrAnswered)
    set_due(made, now_ns_ + kAnswerKeptNs);
  if (repeats) made.connection.retries_left = made.connection.max_retries;
  return Done{};
}

}  // namespace verbatim::agent::cm
