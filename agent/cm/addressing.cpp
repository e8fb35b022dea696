// SPDX-License-Identifier: MIT
// Addresses, routes, options and multicast groups of ids.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "agent/cm/manager.h"
#include "wire/format/path_mtu.h"

namespace verbatim::agent::cm {

namespace {

constexpr int32_t kBacklogMax = 1024;
constexpr uint8_t kPathLifeTime = 18;  ///< what the kernel takes for RoCE: about a second
constexpr uint8_t kHopLimit = 64;
constexpr uint8_t kAckTimeoutMax = 31;
constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kSearchStepNs = 5 * kMillisecond, kSearchStepMaxNs = 250 * kMillisecond;

/// enum ibv_mtu: what fits into packets of an interface.
uint8_t path_mtu(uint32_t interface_mtu) {
  return static_cast<uint8_t>(std::countr_zero(roce::path_mtu_of(interface_mtu)) - 7);
}

bool is_ip(const SocketAddress& address) { return address.family == AF_INET || address.family == AF_INET6; }

SocketAddress wildcard(uint16_t family) {
  SocketAddress any;
  any.family = family;
  if (family == AF_INET) any.address.bytes[10] = any.address.bytes[11] = 0xff;
  return any;
}

SocketAddress loopback(const SocketAddress& like) {
  SocketAddress own = like;
  own.address.bytes[15] = 1;
  if (like.family == AF_INET) own.address.bytes[12] = 127;
  return own;
}

/// One for each pair of ports, so that connections take different ways; as the kernel numbers them.
uint32_t flow_label(const SocketAddress& source, const SocketAddress& destination) {
  constexpr uint32_t kMask = 0xfffff;
  if (destination.family == AF_INET6 && (destination.flow & kMask) != 0) return destination.flow & kMask;
  return (source.port * 31u + destination.port) & kMask;
}

}  // namespace

Outcome Manager::bind(Identifier& id, SocketAddress source) {
  if (id.s.step != Step::kIdle) return Error{EINVAL, "the id has an address already"};
  if (!is_ip(source) && source.family != AF_IB)
    return Error{EAFNOSUPPORT, "ids have no addresses of this family"};
  if (source.family == AF_IB && !source.is_wildcard())
    return Error{ENODEV, "the ports are Ethernet's: no device has an address of InfiniBand"};
  if (source.is_link_local() && source.scope == 0)
    return Error{EINVAL, "a link-local address needs its interface"};
  std::optional<LocalAddress> local;
  if (!source.is_wildcard()) {
    local = host_.find(source);
    if (!local) return Error{EADDRNOTAVAIL, "no interface of this host has the address"};
  }
  if (!id.s.family_only_given) id.s.family_only = source.family == AF_INET;
  const PortTable::Claim claim{roce::cm::PortSpace{id.s.space}, source, id.s.reuse_address != 0,
                               id.s.family_only != 0, false};
  const auto port = ports_.claim(key_of(id), claim, host_.ports(), host_.random());
  if (!port) return port.error();
  id.s.step = Step::kBound;
  id.s.owns_port = 1;
  id.s.source = source;
  id.s.source.port = *port;
  if (local) attach(id, *local);
  return Done{};
}

void Manager::attach(Identifier& id, const LocalAddress& local) {
  id.s.bound = 1;
  id.s.local = local.gid;
  id.s.gid_index = local.gid_index;
  id.s.mtu = local.mtu;
}

Outcome Manager::resolve_address(Identifier& id, const Request& request) {
  SocketAddress destination = request.destination;
  if (destination.family == AF_IB)
    return Error{ENODEV, "the ports are Ethernet's: none leads to an address of InfiniBand"};
  if (!is_ip(destination)) return Error{EAFNOSUPPORT, "ids have no addresses of this family"};
  if (id.s.step == Step::kIdle) {
    SocketAddress source = request.source.is_set() ? request.source : wildcard(destination.family);
    if (!request.source.is_set() && destination.is_link_local()) source.scope = destination.scope;
    if (Outcome bound = bind(id, source); !bound) return bound;
  }
  if (id.s.step != Step::kBound) return Error{EINVAL, "the id is beyond finding addresses"};
  if (id.s.source.family != destination.family)
    return Error{EINVAL, "the id has an address of another family"};
  if (destination.is_wildcard()) destination = loopback(destination);
  if (Outcome chosen = choose_source(id, destination); !chosen) return chosen;
  id.s.destination = destination;
  if (!id.s.bound) {
    tell(id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
    return Done{};
  }
  begin_search(id, request.timeout_ms);
  return Done{};
}

void Manager::begin_search(Identifier& id, uint32_t timeout_ms) {
  id.s.step = Step::kResolvingAddress;
  searches_[key_of(id)] = {now_ns_, now_ns_, now_ns_ + timeout_ms * kMillisecond};
  search(id);
}

// A host that does not say where it is is not there.
void Manager::search(Identifier& id) {
  Search& going = searches_.at(key_of(id));
  const bool found = host_.knows_way(id.s.destination);
  if (!found && now_ns_ < going.until_ns) {
    const uint64_t step = std::clamp((now_ns_ - going.begin_ns) / 4, kSearchStepNs, kSearchStepMaxNs);
    going.next_ns = std::min(now_ns_ + step, going.until_ns);
    return;
  }
  searches_.erase(key_of(id));
  id.s.step = found ? Step::kAddressResolved : Step::kBound;
  if (found)
    tell(id, RDMA_CM_EVENT_ADDR_RESOLVED);
  else
    tell(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
}

// Without an own address the id gets the one that the host would use; if RDMA cannot, it stays unbound.
Outcome Manager::choose_source(Identifier& id, const SocketAddress& destination) {
  if (id.s.bound) {
    const std::optional<LocalAddress> own = host_.find(id.s.source);
    const Expected<SocketAddress> way = host_.source_for(destination, id.s.source, own ? own->interface : 0);
    return way ? Outcome(Done{}) : way.error();
  }
  const Expected<SocketAddress> source = host_.source_for(destination, {}, 0);
  if (!source) return source.error();
  const std::optional<LocalAddress> local = host_.find(*source);
  if (!local) return Done{};
  const uint16_t port = id.s.source.port;
  id.s.source = *source;
  id.s.source.port = port;
  ports_.set_source(key_of(id), id.s.source);
  attach(id, *local);
  return Done{};
}

Outcome Manager::resolve_route(Identifier& id) {
  if (id.s.step != Step::kAddressResolved) return Error{EINVAL, "the id's addresses are not resolved"};
  PathRecord path{};
  path.source = id.s.local;
  path.destination = id.s.destination.address;
  path.flow_label = flow_label(id.s.source, id.s.destination);
  path.source_lid = path.destination_lid = 0;
  path.pkey = 0xffff;
  path.hop_limit = kHopLimit;
  path.traffic_class = id.s.type_of_service;
  path.mtu = path_mtu(id.s.mtu);
  path.packet_life_time = kPathLifeTime;
  id.s.path = path;
  id.s.has_path = 1;
  id.s.step = Step::kRouteResolved;
  tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return Done{};
}

Outcome Manager::set_path(Identifier& id, const PathRecord& path) {
  if (id.s.step != Step::kAddressResolved) return Error{EINVAL, "the id's addresses are not resolved"};
  if (path.mtu < IBV_MTU_256 || path.mtu > IBV_MTU_4096) return Error{EINVAL, "no such path MTU"};
  id.s.path = path;
  id.s.path.source = id.s.local;
  id.s.path.destination = id.s.destination.address;
  id.s.has_path = 1;
  id.s.step = Step::kRouteResolved;
  tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return Done{};
}

Outcome Manager::listen(Identifier& id, int32_t backlog) {
  if (id.s.step == Step::kIdle)
    if (Outcome bound = bind(id, wildcard(AF_INET)); !bound) return bound;
  if (id.s.step != Step::kBound) return Error{EINVAL, "the id cannot listen now"};
  if (Outcome listening = ports_.listen(key_of(id)); !listening) return listening;
  id.s.backlog = backlog > 0 && backlog < kBacklogMax ? backlog : kBacklogMax;
  id.backlog_left = id.s.backlog;
  id.s.step = Step::kListening;
  connections_.somebody_came();
  return Done{};
}

Outcome Manager::set_option(Identifier& id, const Request& request) {
  const bool on = request.value != 0;
  switch (request.option) {
    case Option::kTypeOfService:
      id.s.type_of_service = static_cast<uint8_t>(request.value);
      return Done{};
    case Option::kReuseAddress:
      if (!on && id.s.step != Step::kIdle) return Error{EINVAL, "the id has an address already"};
      id.s.reuse_address = on;
      break;
    case Option::kAddressFamilyOnly:
      if (id.s.step != Step::kIdle && id.s.step != Step::kBound)
        return Error{EINVAL, "the id's address is in use"};
      id.s.family_only = on;
      id.s.family_only_given = 1;
      break;
    case Option::kAckTimeout:
      if (request.value > kAckTimeoutMax) return Error{EINVAL, "timeouts go up to 31"};
      if (id.s.qp_type != IBV_QPT_RC && id.s.qp_type != IBV_QPT_XRC_SEND)
        return Error{EINVAL, "only reliable connections wait for acknowledgements"};
      id.s.ack_timeout = static_cast<uint8_t>(request.value);
      id.s.ack_timeout_given = 1;
      return Done{};
    case Option::kPath:
      return set_path(id, request.path);
    default:
      return Error{ENOSYS, "unknown option"};
  }
  ports_.set_options(key_of(id), id.s.reuse_address != 0, id.s.family_only != 0);
  return Done{};
}

Outcome Manager::join(Identifier& id, const Request& request, Answer& answer) {
  const SocketAddress& group = request.destination;
  if (!id.s.bound || (id.s.step != Step::kBound && id.s.step != Step::kAddressResolved))
    return Error{EINVAL, "the id has no device, or is beyond joining groups"};
  if (!id.s.is_datagram()) return Error{EINVAL, "only datagrams have groups"};
  if (!is_ip(group) || !group.address.is_multicast()) return Error{EINVAL, "not an address of a group"};
  if (request.value >= RDMA_MC_JOIN_FLAG_RESERVED) return Error{EINVAL, "no such membership"};
  const Expected<uint32_t> qkey = set_qkey(id.s, 0);
  if (!qkey) return qkey.error();
  const uint32_t number = new_number(id.client);
  id.memberships[number] = {group, request.context, 0};
  clients_.at(id.client).memberships[number] = key_of(id);
  answer.id = number;
  if (request.again) return Done{};
  Queued queued;
  queued.membership = number;
  queued.event = {};
  queued.event.type = RDMA_CM_EVENT_MULTICAST_JOIN;
  queued.event.id = number;
  queued.event.context = request.context;
  queued.event.parameters.qp_num = 0xffffff;
  queued.event.parameters.qkey = *qkey;
  PathRecord path{};
  path.destination = group.address;
  path.hop_limit = kHopLimit;
  path.traffic_class = id.s.type_of_service;
  queued.event.datagram = address_vector(path, id.s.gid_index);
  queue(id, queued);
  return Done{};
}

Outcome Manager::leave(uint32_t client, const Request& request, Answer& answer) {
  auto& memberships = clients_.at(client).memberships;
  const auto found = memberships.find(request.id);
  if (found == memberships.end()) return Error{ENOENT, "no such membership"};
  Identifier& id = *find(found->second);
  answer.channel = id.channel;
  answer.events_reported = id.memberships.at(request.id).events_reported;
  answer.events_dropped = drop_events(id.client, id.channel,
                                      [&](const Queued& queued) { return queued.membership == request.id; });
  id.memberships.erase(request.id);
  memberships.erase(found);
  return Done{};
}

View Manager::view(const Identifier& id) const {
  View to{};
  to.source = id.s.source;
  to.destination = id.s.destination;
  if (!id.s.bound) return to;
  to.source_gid = id.s.local;
  to.destination_gid = id.s.destination.is_set() ? id.s.destination.address : Gid{};
  to.gid_index = id.s.gid_index;
  to.pkey = 0xffff;
  to.port = 1;
  to.path_count = id.s.has_path;
  to.path = id.s.path;
  return to;
}

}  // namespace verbatim::agent::cm
