// SPDX-License-Identifier: MIT
// Connections of ids: how they are asked for, and what becomes of them.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>

#include "agent/cm/manager.h"

namespace verbatim::agent::cm {

using namespace roce::cm;

namespace {

constexpr uint8_t kResponseTimeout = 20;  ///< about four seconds; these three as the kernel's
constexpr uint8_t kRetries = 15;
constexpr uint8_t kAckDelay = 16;
constexpr uint8_t kMost = 7;  ///< retry counts have three bits

/// The whole private data of a request: addresses and what the program adds. EINVAL: that is too much.
template <size_t kBytes>
Outcome fill_request(const IdState& id, const Parameters& parameters, Private<kBytes>& to) {
  if (parameters.private_data_bytes > kBytes - ServiceHeader::kBytes)
    return Error{EINVAL, "a request takes " + std::to_string(kBytes - ServiceHeader::kBytes) +
                             " bytes of private data"};
  ServiceHeader header;
  header.ipv6 = id.source.family == AF_INET6;
  header.source_port = id.source.port;
  header.source = id.source.address;
  header.destination = id.destination.address;
  header.emit(to);
  std::copy_n(parameters.private_data, parameters.private_data_bytes, to.begin() + ServiceHeader::kBytes);
  return Done{};
}

template <size_t kBytes>
Outcome fill_answer(const Parameters& parameters, Private<kBytes>& to) {
  if (parameters.private_data_bytes > kBytes)
    return Error{EINVAL, "this answer takes " + std::to_string(kBytes) + " bytes of private data"};
  std::copy_n(parameters.private_data, parameters.private_data_bytes, to.begin());
  return Done{};
}

Path path_of(const PathRecord& record, uint8_t ack_timeout) {
  Path path;
  path.local_lid = path.remote_lid = 0xffff;
  path.local_gid = record.source;
  path.remote_gid = record.destination;
  path.flow_label = record.flow_label & 0xfffff;
  path.packet_rate = record.rate & 0x3f;
  path.traffic_class = record.traffic_class;
  path.hop_limit = record.hop_limit;
  path.service_level = record.service_level & 0xf;
  path.local_ack_timeout = ack_timeout & 0x1f;
  return path;
}

PathRecord record_of(const Connection& connection) {
  const Path& path = connection.path;
  PathRecord record{};
  record.source = path.local_gid;
  record.destination = path.remote_gid;
  record.flow_label = path.flow_label;
  record.pkey = connection.pkey;
  record.hop_limit = path.hop_limit;
  record.traffic_class = path.traffic_class;
  record.service_level = path.service_level;
  record.mtu = connection.path_mtu;
  record.rate = path.packet_rate;
  record.packet_life_time = path.local_ack_timeout > 0 ? path.local_ack_timeout - 1 : 0;
  return record;
}

uint8_t qp_type_of(TransportService service) {
  switch (service) {
    case TransportService::kRc:
      return IBV_QPT_RC;
    case TransportService::kUc:
      return IBV_QPT_UC;
    case TransportService::kExtended:
      return IBV_QPT_XRC_RECV;
    case TransportService::kRd:
      break;
  }
  return 0;
}

void set_private_data(Parameters& to, std::span<const uint8_t> bytes) {
  to.private_data_bytes = static_cast<uint8_t>(std::min<size_t>(bytes.size(), 255));
  std::copy_n(bytes.begin(), to.private_data_bytes, to.private_data);
}

void describe(const Connection& connection, Parameters& to) {
  to.valid = 1;
  to.qp_num = connection.remote_qpn;
  to.responder_resources = connection.responder_resources;
  to.initiator_depth = connection.initiator_depth;
  to.flow_control = connection.flow_control;
  to.retry_count = connection.retry_count;
  to.rnr_retry_count = connection.rnr_retry_count;
  to.srq = connection.srq;
}

Ece ece_of(const Enhancement& given) { return {given.vendor_id, given.options}; }
Enhancement enhancement_of(const Ece& given) { return {given.vendor_id & 0xffffff, given.options}; }

}  // namespace

Expected<QpAttributes> Manager::attributes(Identifier& id, uint32_t state) {
  if (id.s.is_datagram() && id.s.bound)
    if (const auto qkey = set_qkey(id.s, 0); !qkey) return qkey.error();
  return qp_attributes(id.s, connections_.find(id.s.comm_id), state);
}

Outcome Manager::connect(Identifier& id, const Request& request) {
  if (id.s.step != Step::kRouteResolved) return Error{EINVAL, "the id's route is not resolved"};
  if (id.s.is_datagram()) return connect_datagram(id, request);
  const Parameters& given = request.parameters;
  Req req;
  if (id.s.qp_type == IBV_QPT_RC)
    req.transport_service = TransportService::kRc;
  else if (id.s.qp_type == IBV_QPT_UC)
    req.transport_service = TransportService::kUc;
  else if (id.s.qp_type == IBV_QPT_XRC_SEND)
    req.transport_service = TransportService::kExtended;
  else
    return Error{EINVAL, "queue pairs of this type cannot be connected"};
  if (id.s.qp_type == IBV_QPT_XRC_SEND) req.extended_transport = kXrcTransport;
  if (Outcome filled = fill_request(id.s, given, req.private_data); !filled) return filled;
  Connection connection;
  connection.service = req.transport_service;
  connection.max_retries = req.max_cm_retries = kRetries;
  connection.ack_timeout = static_cast<uint8_t>(id.s.path.packet_life_time + 1);
  connection.timeout_ms =
      static_cast<uint32_t>(2 * milliseconds(id.s.path.packet_life_time) + milliseconds(kResponseTimeout));
  req.remote_cm_response_timeout = req.local_cm_response_timeout = kResponseTimeout;
  connection.path = req.primary = path_of(id.s.path, connection.ack_timeout);
  connection.path_mtu = req.path_mtu = id.s.path.mtu;
  connection.service_id = req.service_id = service_id(PortSpace{id.s.space}, id.s.destination.port);
  connection.local_qpn = req.local_qpn = given.qp_num & 0xffffff;
  connection.local_psn = req.starting_psn = id.s.first_psn;
  connection.responder_resources = req.responder_resources = given.responder_resources;
  connection.initiator_depth = req.initiator_depth = given.initiator_depth;
  connection.retry_count = req.retry_count = std::min(given.retry_count, kMost);
  req.rnr_retry_count = std::min(given.rnr_retry_count, kMost);
  req.end_to_end_flow_control = given.flow_control != 0;
  req.srq = given.srq != 0;
  id.s.qp_num = connection.local_qpn;
  id.s.step = Step::kConnecting;
  id.s.comm_id = connections_.connect(key_of(id), connection, req, enhancement_of(request.ece));
  return Done{};
}

Outcome Manager::connect_datagram(Identifier& id, const Request& request) {
  SidrReq req;
  if (Outcome filled = fill_request(id.s, request.parameters, req.private_data); !filled) return filled;
  Connection connection;
  connection.max_retries = kRetries;
  connection.timeout_ms = static_cast<uint32_t>(milliseconds(kResponseTimeout));
  connection.path = path_of(id.s.path, 0);
  connection.service_id = req.service_id = service_id(PortSpace{id.s.space}, id.s.destination.port);
  id.s.qp_num = request.parameters.qp_num;
  id.s.step = Step::kConnecting;
  id.s.comm_id = connections_.connect_datagram(key_of(id), connection, req);
  return Done{};
}

Outcome Manager::accept(Identifier& id, const Request& request) {
  if (id.s.step != Step::kConnecting) return Error{EINVAL, "the id has no request to accept"};
  if (id.s.is_datagram()) return accept_datagram(id, request);
  const Connection* connection = connections_.find(id.s.comm_id);
  if (!connection) return Error{EINVAL, "the request is gone"};
  const Parameters& given = request.parameters;
  Rep rep;
  if (Outcome filled = fill_answer(given, rep.private_data); !filled) return filled;
  if (connection->service == TransportService::kExtended)
    rep.local_eecn = given.qp_num & 0xffffff;
  else
    rep.local_qpn = given.qp_num & 0xffffff;
  rep.starting_psn = id.s.first_psn;
  rep.responder_resources = given.valid ? given.responder_resources : connection->responder_resources;
  rep.initiator_depth = given.valid ? given.initiator_depth : connection->initiator_depth;
  rep.target_ack_delay = kAckDelay;
  rep.end_to_end_flow_control = given.flow_control != 0;
  rep.rnr_retry_count = std::min(given.valid ? given.rnr_retry_count : kMost, kMost);
  rep.srq = given.srq != 0 || connection->service == TransportService::kExtended;
  if (Outcome sent = connections_.accept(id.s.comm_id, rep, enhancement_of(request.ece)); !sent) return sent;
  id.s.qp_num = given.qp_num & 0xffffff;
  id.context = request.context;
  id.s.accepted = 1;
  return Done{};
}

Outcome Manager::accept_datagram(Identifier& id, const Request& request) {
  SidrRep rep;
  if (Outcome filled = fill_answer(request.parameters, rep.private_data); !filled) return filled;
  const Expected<uint32_t> qkey = set_qkey(id.s, request.parameters.qkey);
  if (!qkey) return qkey.error();
  rep.qkey = *qkey;
  rep.qpn = request.parameters.qp_num & 0xffffff;
  if (Outcome sent = connections_.answer_datagram(id.s.comm_id, rep, enhancement_of(request.ece)); !sent)
    return sent;
  id.s.qp_num = rep.qpn;
  id.context = request.context;
  id.s.accepted = 1;
  return Done{};
}

Outcome Manager::reject(Identifier& id, const Request& request) {
  if (id.s.comm_id == 0) return Error{EINVAL, "the id has no connection"};
  const auto reason =
      request.reason == 0 ? RejectReason::kByConsumer : static_cast<RejectReason>(request.reason & 0xffff);
  if (reason != RejectReason::kByConsumer && reason != RejectReason::kVendorOptionUnsupported)
    return Error{EINVAL, "a program cannot give this reason"};
  if (id.s.is_datagram()) {
    SidrRep rep;
    rep.status = SidrStatus::kRejected;
    if (Outcome filled = fill_answer(request.parameters, rep.private_data); !filled) return filled;
    return connections_.answer_datagram(id.s.comm_id, rep, {});
  }
  Private<148> data{};
  if (Outcome filled = fill_answer(request.parameters, data); !filled) return filled;
  return connections_.reject(id.s.comm_id, reason, data);
}

// Whether it began or agreed to the end, or there was nothing to end: the program has done its part.
Outcome Manager::disconnect(Identifier& id) {
  if (id.s.comm_id == 0) return Error{EINVAL, "the id has no connection"};
  (void)connections_.disconnect(id.s.comm_id);
  return Done{};
}

Outcome Manager::notify(Identifier& id, uint32_t event) {
  if (id.s.comm_id == 0) return Error{EINVAL, "the id has no connection"};
  if (event != IBV_EVENT_COMM_EST) return Error{EINVAL, "the event tells a connection nothing"};
  return connections_.establish(id.s.comm_id);
}

ConnectionUser::Admission Manager::admit(const Proposal& proposal, uint64_t& owner) {
  const Connection& c = proposal.connection;
  const auto header = ServiceHeader::parse(proposal.private_data);
  if (!header || space_of(c.service_id) > UINT16_MAX) return Admission::kNobodyListens;
  SocketAddress wanted;
  wanted.family = header->ipv6 ? AF_INET6 : AF_INET;
  wanted.port = roce::cm::port_of(c.service_id);
  wanted.address = header->destination;
  Identifier* listener =
      find(ports_.listener(PortSpace{static_cast<uint16_t>(space_of(c.service_id))}, wanted));
  if (!listener) return Admission::kNobodyListens;
  const uint8_t type = proposal.datagram ? uint8_t{IBV_QPT_UD} : qp_type_of(c.service);
  if (listener->s.qp_type != 0 && listener->s.qp_type != type) return Admission::kNobodyListens;
  if (listener->backlog_left == 0) return Admission::kLater;
  Identifier* child = child_of(*listener, proposal, *header);
  if (!child) return Admission::kLater;
  owner = key_of(*child);
  listener->backlog_left--;
  Queued queued;
  queued.child = owner;
  queued.event = {};
  queued.event.type = RDMA_CM_EVENT_CONNECT_REQUEST;
  queued.event.id = child->number;
  queued.event.listener = listener->number;
  queued.event.ece = ece_of(proposal.ece);
  if (!proposal.datagram) describe(c, queued.event.parameters);
  // Who listens at an address of InfiniBand's has the addresses in front of the data, too.
  const size_t before = listener->s.source.family == AF_IB ? 0 : ServiceHeader::kBytes;
  set_private_data(queued.event.parameters, proposal.private_data.subspan(before));
  queue(*listener, queued);
  return Admission::kTaken;
}

Identifier* Manager::child_of(const Identifier& listener, const Proposal& proposal,
                              const ServiceHeader& header) {
  const Connection& c = proposal.connection;
  const uint32_t client = listener.client, channel = listener.channel, from = listener.number;
  SocketAddress source, destination;
  source.family = destination.family = header.ipv6 ? AF_INET6 : AF_INET;
  source.address = header.destination;
  source.port = roce::cm::port_of(c.service_id);
  destination.address = header.source;
  destination.port = header.source_port;
  // Its device is where the datagram came to, whatever it says.
  SocketAddress came_to = source;
  came_to.family = c.path.local_gid.is_ipv4_mapped() ? AF_INET : AF_INET6;
  came_to.address = c.path.local_gid;
  const std::optional<LocalAddress> local = host_.find(came_to);
  if (listener.s.source.family == AF_IB) {
    source.family = destination.family = AF_IB;
    source.address = c.path.local_gid;
    destination.address = c.path.remote_gid;
    destination.port = 0;
  }
  const uint16_t space = listener.s.space;
  const uint8_t type_of_service = listener.s.type_of_service;
  if (!local) return nullptr;
  if (came_to.is_link_local()) source.scope = destination.scope = local->interface;
  Expected<Identifier*> made = add_id(client, 0, channel);
  if (!made) return nullptr;
  Identifier& child = **made;
  child.s.step = Step::kConnecting;
  child.s.space = space;
  child.s.type_of_service = type_of_service;
  child.s.qp_type = proposal.datagram ? uint8_t{IBV_QPT_UD} : qp_type_of(c.service);
  child.s.listener = from;
  child.s.comm_id = c.local_comm_id;
  child.s.source = source;
  child.s.destination = destination;
  child.s.path = record_of(c);
  child.s.has_path = 1;
  attach(child, *local);
  return &child;
}

void Manager::happened(uint64_t owner, const Connection& connection, const Happening& what) {
  Identifier* id = find(owner);
  if (!id) return;
  if (what.kind == Happening::Kind::kTimewaitOver) {
    if (id->s.step == Step::kDisconnected) tell(*id, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    return;
  }
  if (id->s.step != Step::kConnecting) return;
  switch (what.kind) {
    case Happening::Kind::kReplied:
      return replied(*id, connection, what);
    case Happening::Kind::kEstablished:
      return tell(*id, RDMA_CM_EVENT_ESTABLISHED);
    case Happening::Kind::kUnreachable:
      return tell(*id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    case Happening::Kind::kDisconnected:
      id->s.step = Step::kDisconnected;
      return tell(*id, RDMA_CM_EVENT_DISCONNECTED, what.timed_out ? -ETIMEDOUT : 0);
    case Happening::Kind::kRejected: {
      Queued queued;
      queued.event = {};
      queued.event.type = RDMA_CM_EVENT_REJECTED;
      queued.event.status = what.reason;
      set_private_data(queued.event.parameters, what.private_data);
      return queue(*id, queued);
    }
    case Happening::Kind::kDatagramReplied:
      return datagram_replied(*id, what);
    case Happening::Kind::kTimewaitOver:
      return;
  }
}

void Manager::replied(Identifier& id, const Connection& connection, const Happening& what) {
  Queued queued;
  queued.event = {};
  queued.event.type = RDMA_CM_EVENT_CONNECT_RESPONSE;
  queued.event.ece = ece_of(what.ece);
  describe(connection, queued.event.parameters);
  set_private_data(queued.event.parameters, what.private_data);
  queue(id, queued);
}

void Manager::datagram_replied(Identifier& id, const Happening& what) {
  Queued queued;
  queued.event = {};
  queued.event.type = RDMA_CM_EVENT_ESTABLISHED;
  if (what.reason != static_cast<uint16_t>(SidrStatus::kValid)) {
    queued.event.type = RDMA_CM_EVENT_UNREACHABLE;
    queued.event.status = what.reason;
  } else if (const auto qkey = set_qkey(id.s, what.qkey); !qkey) {
    queued.event.type = RDMA_CM_EVENT_ADDR_ERROR;
    queued.event.status = -EINVAL;
  } else {
    queued.event.datagram = address_vector(id.s.path, id.s.gid_index);
    queued.event.parameters.valid = 1;
    queued.event.parameters.qp_num = what.qpn;
    queued.event.parameters.qkey = what.qkey;
    queued.event.ece = ece_of(what.ece);
  }
  set_private_data(queued.event.parameters, what.private_data);
  queue(id, queued);
}

}  // namespace verbatim::agent::cm
