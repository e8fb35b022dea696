// SPDX-License-Identifier: MIT
#include "tools/doctor/way_checks.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/gid_table.h"
#include "tools/doctor/answer_checks.h"
#include "wire/format/path_mtu.h"

namespace verbatim::doctor {

namespace {

// Looks at one thing each; false: there is no point in going on.

bool check_name(Report& report, const std::string& name, Address& address) {
  const Expected<Address> found = find_address(name);
  if (!found) {
    report.problem("name", name + ": " + found.error().reason,
                   "give an IP address, or teach the resolver the name (/etc/hosts)");
    return false;
  }
  address = *found;
  const std::string text = text_of(address.address);
  if (address.is_wildcard() || address.address.is_multicast()) {
    report.problem("name", text + " is no host's address", "name one host");
    return false;
  }
  if (address.is_link_local() && address.scope == 0) {
    report.problem("name", text + " is link-local: it does not say on which interface",
                   "append %INTERFACE, or use another of its addresses");
    return false;
  }
  if (text != name) report.well("name", name + " is " + text);
  return true;
}

bool check_route(Report& report, const Address& address, Route& route, Interface& interface) {
  const std::string to = text_of(address.address);
  const Expected<Route> found = route_to(address);
  if (!found) {
    report.problem(
        "route", to + ": " + found.error().reason,
        found.error().code == ENETUNREACH
            ? "add one: ip route add " + to + " via GATEWAY, or an address of its network to an interface"
            : "delete or correct it: ip route get " + to);
    return false;
  }
  route = *found;
  interface = interface_of(route.interface);
  if (route.local) {
    report.well("route", to + " is this host itself: its programs talk through shared memory");
    return true;
  }
  const std::string gateway = route.gateway.is_zero() ? ", on the link" : ", via " + text_of(route.gateway);
  report.well("route", to + " through " + interface.name + gateway);
  if (interface.up && interface.running) return true;
  report.problem(
      "link", interface.name + (interface.up ? " has no link" : " is down"),
      interface.up ? "look at its cable, switch or peer" : "ip link set " + interface.name + " up");
  return false;
}

bool check_source(Report& report, const Host& host, const Address& address, const Route& route) {
  const Gid source = route.local ? address.address : route.source;
  const auto& gids = host.port.gids;
  const auto found = std::find_if(gids.begin(), gids.end(), [&](const engine::GidEntry& entry) {
    return entry.gid == source && entry.type == GidType::kRoceV2;
  });
  const std::string text = source.is_zero() ? "no address" : text_of(source);
  if (found != gids.end()) {
    report.well("source", "packets leave from " + text + ", GID " + std::to_string(found - gids.begin()));
    return true;
  }
  report.problem(
      "source", "packets leave from " + text + ", which is not in the GID table of the devices",
      "give an interface that is up this address (ip addr add), or the route another one (ip route ... src)");
  return false;
}

// What an interface and route take, against what packets of a path MTU need.
bool check_sizes(Report& report, const Address& address, const Route& route, const Interface& interface) {
  if (route.local) return true;
  const uint32_t mtu = roce::path_mtu_of(interface.mtu), needs = packet_bytes(mtu, address);
  const bool by_route = route.mtu != 0 && route.mtu < interface.mtu;
  const uint32_t takes = by_route ? route.mtu : interface.mtu;
  const std::string who =
      (by_route ? "the route" : interface.name) + " takes " + std::to_string(takes) + ", ";
  const std::string packets =
      "packets of path MTU " + std::to_string(mtu) + " have " + std::to_string(needs) + " bytes";
  const std::string remedy = by_route ? "give " + interface.name + " the MTU that the way has"
                                      : "ip link set " + interface.name + " mtu 1500";
  if (takes < message_bytes(address)) {
    report.problem(
        "mtu",
        who + "messages of the connection manager have " + std::to_string(message_bytes(address)) + " bytes",
        remedy);
    return false;
  }
  if (takes >= needs)
    report.well("mtu", who + packets);
  else
    report.note("mtu", who + packets + ": they go in fragments",
                "adapters of hardware take no fragments: " + remedy);
  return true;
}

}  // namespace

void check_way(Report& report, const Host& host, const std::string& name, uint64_t patience_ns) {
  Address address;
  Route route;
  Interface interface;
  if (!check_name(report, name, address) || !check_route(report, address, route, interface) ||
      !check_source(report, host, address, route) || !check_sizes(report, address, route, interface))
    return;
  if (!host.membership) return;
  check_answer(report, address, route, patience_ns);
  if (!route.local && !report.has_problem())
    check_large_packets(report, address, roce::path_mtu_of(interface.mtu));
}

}  // namespace verbatim::doctor
