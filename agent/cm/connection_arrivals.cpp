// SPDX-License-Identifier: MIT
// What the messages that come do to connections.
#include <algorithm>
#include <cerrno>

#include "agent/cm/connections.h"
#include "wire/format/cm_service.h"

namespace verbatim::agent::cm {

using namespace roce::cm;

namespace {

constexpr size_t kHeldMax = 256;
constexpr uint64_t kListenerWaitNs = 100'000'000;  ///< how long a request waits for somebody who listens
constexpr uint8_t kPatience = 24;                  ///< what an MRA asks for: about a minute
constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint8_t kAckDelay = 16;  ///< of the device: 4.096 us << it

/// How long until an acknowledgement must have come, both ways and the peer's delay: as a value of the
/// messages (powers of two: the larger one, and one more where they are about equal).
uint8_t ack_timeout(uint8_t ack_delay, uint8_t one_way) {
  uint8_t timeout = static_cast<uint8_t>(one_way + 1);
  if (timeout >= ack_delay)
    timeout = static_cast<uint8_t>(timeout + (ack_delay >= timeout - 1));
  else
    timeout = static_cast<uint8_t>(ack_delay + (timeout >= ack_delay - 1));
  return std::min<uint8_t>(timeout, 31);
}

uint8_t less_one(uint8_t value) { return value > 0 ? static_cast<uint8_t>(value - 1) : uint8_t{0}; }

uint64_t guid_in(const Rej& rej) {
  uint64_t guid = 0;
  for (size_t i = 0; i < 8; i++) guid = guid << 8 | rej.info[i];
  return rej.info_length >= 8 ? guid : 0;
}

Path turned(const Path& path) {
  Path own = path;
  std::swap(own.local_gid, own.remote_gid);
  std::swap(own.local_lid, own.remote_lid);
  return own;
}

Proposal proposal_of(const Arrival& arrival, const roce::MadHeader& header, const Req& req) {
  Proposal proposal;
  Connection& c = proposal.connection;
  c.phase = Phase::kReqReceived;
  c.srq = req.srq;
  c.service = req.transport_service;
  c.max_retries = req.max_cm_retries;
  c.path_mtu = req.path_mtu;
  c.responder_resources = req.initiator_depth;
  c.initiator_depth = req.responder_resources;
  c.retry_count = req.retry_count;
  c.rnr_retry_count = req.rnr_retry_count;
  c.ack_timeout = ack_timeout(kAckDelay, less_one(req.primary.local_ack_timeout));
  c.flow_control = req.end_to_end_flow_control;
  c.timeout_ms = static_cast<uint32_t>(milliseconds(req.local_cm_response_timeout));
  c.remote_comm_id = req.local_comm_id;
  c.transaction = header.transaction;
  c.service_id = req.service_id;
  c.remote_guid = req.local_ca_guid;
  c.remote_qpn = req.local_qpn;
  c.remote_psn = req.starting_psn;
  c.pkey = req.pkey;
  c.path = turned(req.primary);
  c.path.local_gid = arrival.local;
  c.path.remote_gid = arrival.remote;
  proposal.ece = {req.vendor_id, header.modifier};
  proposal.private_data = req.private_data;
  return proposal;
}

}  // namespace

void Connections::arrived(const Arrival& arrival) { dispatch(arrival, now_ns_); }

void Connections::dispatch(const Arrival& arrival, uint64_t since_ns) {
  const auto message = Message::parse(arrival.mad);
  if (!message) return;
  since_ns_ = since_ns;
  std::visit([&](const auto& body) { on(arrival, message->header, body); }, message->body);
}

// True: it will be seen again, when those whom it is about may be there.
bool Connections::hold(const Arrival& arrival, uint64_t until_ns) {
  if (now_ns_ >= until_ns || held_.size() >= kHeldMax) return false;
  Held& held = held_.emplace_back();
  held.since_ns = since_ns_;
  held.until_ns = until_ns;
  held.local = arrival.local;
  held.remote = arrival.remote;
  std::copy_n(arrival.mad.begin(), held.mad.size(), held.mad.begin());
  held_due_ns_ = std::min(held_due_ns_, until_ns);
  return true;
}

// Nobody can ever listen at port 0.
bool Connections::hold_for_listener(const Arrival& arrival, uint64_t service_id) {
  return port_of(service_id) != 0 && hold(arrival, std::max(returns_until_ns_, since_ns_ + kListenerWaitNs));
}

// Who asked has given up.
void Connections::forget_held(const Gid& remote, uint32_t remote_comm_id) {
  std::erase_if(held_, [&](const Held& each) {
    if (!(each.remote == remote)) return false;
    const auto message = Message::parse(each.mad);
    const auto* req = std::get_if<Req>(&message->body);
    return req && req->local_comm_id == remote_comm_id;
  });
}

void Connections::see_held_again() {
  std::vector<Held> held;
  held.swap(held_);
  held_due_ns_ = kNever;
  for (const Held& each : held) dispatch({each.local, each.remote, each.mad}, each.since_ns);
}

// Of no connection.
void Connections::answer(const Arrival& arrival, uint64_t transaction, Body body) {
  std::array<uint8_t, roce::kMadBytes> mad{};
  Message::of(std::move(body), transaction).emit(mad);
  wire_.send(arrival.local, arrival.remote, mad);
}

// `refusal`: what whoever asks is told where nobody listens.
void Connections::admit(const Arrival& arrival, Proposal& proposal, Body refusal) {
  Connection& c = proposal.connection;
  c.local_comm_id = new_comm_id();
  uint64_t owner = 0;
  switch (user_.admit(proposal, owner)) {
    case ConnectionUser::Admission::kTaken:
      return index(*entry(add(c, owner)));
    case ConnectionUser::Admission::kLater:
      return;
    case ConnectionUser::Admission::kNobodyListens:
      if (!hold_for_listener(arrival, c.service_id)) answer(arrival, c.transaction, std::move(refusal));
      return;
  }
}

// The connection that a message is about, by both comm ids; from its peer, not from somebody who guesses.
Connections::Entry* Connections::known(const Arrival& arrival, uint32_t local, uint32_t remote) {
  Entry* found = entry(local);
  if (!found || found->connection.phase == Phase::kIdle) return nullptr;
  const Connection& c = found->connection;
  if (c.remote_comm_id != 0 && c.remote_comm_id != remote) return nullptr;
  return c.path.remote_gid == arrival.remote ? found : nullptr;
}

// A peer that uses a queue pair for something new has forgotten what it was used for.
bool Connections::is_stale(const Arrival& arrival, uint64_t guid, uint32_t qpn, uint32_t own) {
  const auto found = by_remote_qpn_.find({arrival.remote.bytes, guid, qpn});
  if (qpn == 0 || found == by_remote_qpn_.end() || found->second == own) return false;
  (void)disconnect(found->second);
  return true;
}

// The peer has not heard the answer, or there is none yet.
void Connections::req_again(Entry& entry) {
  const Connection& c = entry.connection;
  if (c.phase == Phase::kReqReceived) {
    Mra mra;
    mra.local_comm_id = c.local_comm_id;
    mra.remote_comm_id = c.remote_comm_id;
    mra.message = Answered::kReq;
    mra.service_timeout = kPatience;
    send(entry, mra);
  } else if (c.phase == Phase::kRepSent || (c.phase == Phase::kEstablished && c.has_pending && !c.active)) {
    wire_.send(c.path.local_gid, c.path.remote_gid, c.pending);
  } else if (c.phase == Phase::kTimewait) {
    Rej rej;
    rej.remote_comm_id = c.remote_comm_id;
    rej.message = Answered::kReq;
    rej.reason = RejectReason::kStaleConnection;
    send(entry, rej);
  }
}

void Connections::on(const Arrival& arrival, const roce::MadHeader& header, const Req& req) {
  Proposal proposal = proposal_of(arrival, header, req);
  Connection& c = proposal.connection;
  const auto before = by_remote_id_.find(remote_key(c, c.remote_comm_id));
  if (before != by_remote_id_.end()) return req_again(entries_.at(before->second));
  Rej rej;
  rej.remote_comm_id = req.local_comm_id;
  rej.message = Answered::kReq;
  if (is_stale(arrival, req.local_ca_guid, req.local_qpn, 0)) {
    rej.reason = RejectReason::kStaleConnection;
    return answer(arrival, header.transaction, rej);
  }
  rej.reason = RejectReason::kInvalidServiceId;
  admit(arrival, proposal, rej);
}

void Connections::on(const Arrival& arrival, const roce::MadHeader&, const Mra& mra) {
  Entry* found = known(arrival, mra.remote_comm_id, mra.local_comm_id);
  if (!found) return;
  Connection& c = found->connection;
  const bool fits = (c.phase == Phase::kReqSent && mra.message == Answered::kReq) ||
                    (c.phase == Phase::kRepSent && mra.message == Answered::kRep);
  if (!fits || c.patient) return;
  c.patient = true;
  const uint64_t wait_ms = milliseconds(mra.service_timeout) + milliseconds(c.ack_timeout);
  set_due(*found, now_ns_ + wait_ms * kMillisecond);
}

// Who gives up on a REQ does not know our comm id, and says by its GUID who it is.
Connections::Entry* Connections::rejected(const Arrival& arrival, const Rej& rej) {
  if (rej.reason != RejectReason::kTimeout) return known(arrival, rej.remote_comm_id, rej.local_comm_id);
  const auto found = by_remote_id_.find({arrival.remote.bytes, guid_in(rej), rej.local_comm_id});
  return found == by_remote_id_.end() ? nullptr : entry(found->second);
}

void Connections::on(const Arrival& arrival, const roce::MadHeader& header, const Rej& rej) {
  Entry* found = rejected(arrival, rej);
  if (!found) {
    if (rej.reason == RejectReason::kTimeout) forget_held(arrival.remote, rej.local_comm_id);
    // A REQ is rejected by those who have no comm id for it.
    Entry* asked = entry(rej.remote_comm_id);
    if (!asked || rej.local_comm_id != 0 || asked->connection.phase != Phase::kReqSent ||
        !(asked->connection.path.remote_gid == arrival.remote) ||
        asked->connection.transaction != header.transaction)
      return;
    found = asked;
  }
  Happening what{.kind = Happening::Kind::kRejected, .reason = static_cast<uint16_t>(rej.reason)};
  what.private_data = rej.private_data;
  switch (found->connection.phase) {
    case Phase::kReqSent:
    case Phase::kReqReceived:
    case Phase::kRepReceived:
    case Phase::kRepSent:
      enter_idle(*found);
      return tell(*found, what);
    case Phase::kDreqSent:
      what = {.kind = Happening::Kind::kDisconnected};
      [[fallthrough]];
    case Phase::kEstablished:
      enter_timewait(*found);
      return tell(*found, what);
    case Phase::kIdle:
    case Phase::kDreqReceived:
    case Phase::kTimewait:
    case Phase::kSidrReqSent:
    case Phase::kSidrReqReceived:
    case Phase::kSidrAnswered:
      return;
  }
}

void Connections::on(const Arrival& arrival, const roce::MadHeader& header, const Rep& rep) {
  Entry* found = known(arrival, rep.remote_comm_id, rep.local_comm_id);
  if (!found || !found->connection.active) {
    if (hold(arrival)) return;
    Rej rej;
    rej.local_comm_id = rep.remote_comm_id;
    rej.remote_comm_id = rep.local_comm_id;
    rej.message = Answered::kRep;
    rej.reason = RejectReason::kInvalidCommId;
    return answer(arrival, header.transaction, rej);
  }
  Connection& c = found->connection;
  if (c.phase == Phase::kEstablished) return send_rtu(*found);
  if (c.phase == Phase::kRepReceived) {
    Mra mra;
    mra.local_comm_id = c.local_comm_id;
    mra.remote_comm_id = c.remote_comm_id;
    mra.message = Answered::kRep;
    mra.service_timeout = kPatience;
    return send(*found, mra);
  }
  if (c.phase != Phase::kReqSent) return;
  const uint32_t qpn = rep.local_qpn != 0 ? rep.local_qpn : rep.local_eecn;
  if (is_stale(arrival, rep.local_ca_guid, qpn, c.local_comm_id)) {
    Rej rej;
    rej.local_comm_id = c.local_comm_id;
    rej.remote_comm_id = rep.local_comm_id;
    rej.message = Answered::kRep;
    rej.reason = RejectReason::kStaleConnection;
    return answer(arrival, header.transaction, rej);
  }
  take_rep(*found, rep);
  Happening what{.kind = Happening::Kind::kReplied, .ece = {rep.vendor_id, header.modifier}};
  what.private_data = rep.private_data;
  tell(*found, what);
}

void Connections::take_rep(Entry& entry, const Rep& rep) {
  Connection& c = entry.connection;
  stop(entry);
  c.phase = Phase::kRepReceived;
  c.remote_comm_id = rep.local_comm_id;
  c.remote_guid = rep.local_ca_guid;
  c.remote_qpn = rep.local_qpn != 0 ? rep.local_qpn : rep.local_eecn;
  c.remote_psn = rep.starting_psn;
  c.initiator_depth = rep.responder_resources;
  c.responder_resources = rep.initiator_depth;
  c.flow_control = rep.end_to_end_flow_control;
  c.rnr_retry_count = rep.rnr_retry_count;
  c.srq = rep.srq;
  c.ack_timeout = ack_timeout(rep.target_ack_delay, less_one(c.ack_timeout));
  index(entry);
}

void Connections::on(const Arrival& arrival, const roce::MadHeader&, const Rtu& rtu) {
  Entry* found = known(arrival, rtu.remote_comm_id, rtu.local_comm_id);
  if (!found) return (void)hold(arrival);
  if (found->connection.phase != Phase::kRepSent) return;
  stop(*found);
  found->connection.phase = Phase::kEstablished;
  Happening what{.kind = Happening::Kind::kEstablished};
  what.private_data = rtu.private_data;
  tell(*found, what);
}

void Connections::on(const Arrival& arrival, const roce::MadHeader& header, const Dreq& dreq) {
  Entry* found = known(arrival, dreq.remote_comm_id, dreq.local_comm_id);
  if (!found) {
    if (hold(arrival)) return;
    Drep drep;  // so that the other end need not wait
    drep.local_comm_id = dreq.remote_comm_id;
    drep.remote_comm_id = dreq.local_comm_id;
    return answer(arrival, header.transaction, drep);
  }
  Connection& c = found->connection;
  if (c.local_qpn != dreq.remote_qpn) return;
  switch (c.phase) {
    case Phase::kRepSent:
    case Phase::kRepReceived:
    case Phase::kEstablished:
      stop(*found);
      forget_qpn(*found);  // the peer may use it for something new, however long this end takes to answer
      c.phase = Phase::kDreqReceived;
      if (found->owner == 0) (void)disconnect(c.local_comm_id);
      return tell(*found, {.kind = Happening::Kind::kDisconnected});
    case Phase::kDreqSent:  // both at once
      send_drep(*found);
      enter_timewait(*found);
      return tell(*found, {.kind = Happening::Kind::kDisconnected});
    case Phase::kTimewait:
      return send_drep(*found);
    case Phase::kIdle:
    case Phase::kReqSent:
    case Phase::kReqReceived:
    case Phase::kDreqReceived:
    case Phase::kSidrReqSent:
    case Phase::kSidrReqReceived:
    case Phase::kSidrAnswered:
      return;
  }
}

void Connections::on(const Arrival& arrival, const roce::MadHeader&, const Drep& drep) {
  Entry* found = known(arrival, drep.remote_comm_id, drep.local_comm_id);
  if (!found) return (void)hold(arrival);
  const Phase phase = found->connection.phase;
  if (phase != Phase::kDreqSent && phase != Phase::kDreqReceived) return;
  enter_timewait(*found);
  tell(*found, {.kind = Happening::Kind::kDisconnected});
}

void Connections::on(const Arrival& arrival, const roce::MadHeader& header, const SidrReq& req) {
  Proposal proposal;
  Connection& c = proposal.connection;
  proposal.datagram = true;
  proposal.private_data = req.private_data;
  proposal.ece = {};
  c.phase = Phase::kSidrReqReceived;
  c.remote_comm_id = req.request_id;
  c.transaction = header.transaction;
  c.service_id = req.service_id;
  c.pkey = req.pkey;
  c.path.local_lid = c.path.remote_lid = 0xffff;
  c.path.local_gid = arrival.local;
  c.path.remote_gid = arrival.remote;
  const auto before = by_remote_id_.find(remote_key(c, c.remote_comm_id));
  if (before != by_remote_id_.end()) {
    const Connection& known = entries_.at(before->second).connection;
    if (known.phase == Phase::kSidrAnswered) wire_.send(arrival.local, arrival.remote, known.pending);
    return;
  }
  SidrRep rep;
  rep.request_id = req.request_id;
  rep.status = SidrStatus::kUnsupportedService;
  rep.service_id = req.service_id;
  admit(arrival, proposal, rep);
}

void Connections::on(const Arrival& arrival, const roce::MadHeader& header, const SidrRep& rep) {
  Entry* found = known(arrival, rep.request_id, 0);
  if (!found) return (void)hold(arrival);
  if (found->connection.phase != Phase::kSidrReqSent) return;
  enter_idle(*found);
  found->connection.remote_qpn = rep.qpn;
  Happening what{.kind = Happening::Kind::kDatagramReplied};
  what.reason = static_cast<uint16_t>(rep.status);
  what.qpn = rep.qpn;
  what.qkey = rep.qkey;
  what.ece = {rep.vendor_id, header.modifier};
  what.private_data = rep.private_data;
  tell(*found, what);
}

// As the kernel's on RoCE, this one knows no alternate paths; it says so.
void Connections::on(const Arrival& arrival, const roce::MadHeader&, const Lap& lap) {
  Entry* found = known(arrival, lap.remote_comm_id, lap.local_comm_id);
  if (!found || found->connection.phase != Phase::kEstablished) return;
  Apr apr;
  apr.local_comm_id = found->connection.local_comm_id;
  apr.remote_comm_id = found->connection.remote_comm_id;
  apr.status = AlternatePathStatus::kUnsupported;
  send(*found, apr);
}

}  // namespace verbatim::agent::cm
