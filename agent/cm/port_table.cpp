// SPDX-License-Identifier: MIT
#include "agent/cm/port_table.h"

#include <cerrno>

namespace verbatim::agent::cm {

using roce::cm::PortSpace;

Outcome PortTable::check(Owner owner, const Claim& claim, bool reuse) const {
  const auto [first, last] = ports_.equal_range(port_of(claim.space, claim.source.port));
  for (auto each = first; each != last; ++each) {
    if (each->second == owner) continue;
    const Claim& other = claims_.at(each->second);
    if (reuse && other.reuse_address && !other.listening) continue;
    if (claim.family_only && other.family_only && claim.source.family != other.source.family) continue;
    if (claim.source.is_wildcard() || other.source.is_wildcard())
      return Error{EADDRNOTAVAIL, "port " + std::to_string(claim.source.port) + " is taken: one of the two " +
                                      "addresses is a wildcard"};
    if (claim.source.same_host(other.source))
      return Error{EADDRINUSE, "port " + std::to_string(claim.source.port) + " is taken at this address"};
  }
  return Done{};
}

uint16_t PortTable::free_port(const Claim& claim, Range range, uint32_t random) {
  if (range.last < range.first) return 0;
  const uint32_t count = range.last - range.first + 1u;
  for (uint32_t i = 0; i < count; i++) {
    const auto port = static_cast<uint16_t>(range.first + (random % count + i) % count);
    if (port == 0 || (port == last_ && count > 1) || ports_.count(port_of(claim.space, port)) != 0) continue;
    last_ = port;
    return port;
  }
  return 0;
}

Expected<uint16_t> PortTable::claim(Owner owner, Claim claim, Range range, uint32_t random) {
  if (claim.source.port == 0) {
    claim.source.port = free_port(claim, range, random);
    if (claim.source.port == 0) return Error{EADDRNOTAVAIL, "no port is free"};
  } else if (Outcome free = check(owner, claim, claim.reuse_address); !free) {
    return free.error();
  }
  release(owner);
  claims_[owner] = claim;
  ports_.emplace(port_of(claim.space, claim.source.port), owner);
  return claim.source.port;
}

void PortTable::set_source(Owner owner, const SocketAddress& source) {
  const auto found = claims_.find(owner);
  if (found == claims_.end()) return;
  const uint16_t port = found->second.source.port;
  found->second.source = source;
  found->second.source.port = port;
}

void PortTable::set_options(Owner owner, bool reuse_address, bool family_only) {
  const auto found = claims_.find(owner);
  if (found == claims_.end()) return;
  found->second.reuse_address = reuse_address;
  found->second.family_only = family_only;
}

Outcome PortTable::listen(Owner owner) {
  const auto found = claims_.find(owner);
  if (found == claims_.end()) return Error{EINVAL, "no port to listen at"};
  if (Outcome alone = check(owner, found->second, false); !alone) return alone;
  found->second.listening = true;
  return Done{};
}

void PortTable::release(Owner owner) {
  const auto found = claims_.find(owner);
  if (found == claims_.end()) return;
  const auto [first, last] = ports_.equal_range(port_of(found->second.space, found->second.source.port));
  for (auto each = first; each != last; ++each)
    if (each->second == owner) {
      ports_.erase(each);
      break;
    }
  claims_.erase(found);
}

PortTable::Owner PortTable::listener(PortSpace space, const SocketAddress& destination) const {
  Owner wildcard = 0;
  const auto [first, last] = ports_.equal_range(port_of(space, destination.port));
  for (auto each = first; each != last; ++each) {
    const Claim& claim = claims_.at(each->second);
    if (!claim.listening) continue;
    const bool family = claim.source.family == destination.family;
    if (family && claim.source.address == destination.address) return each->second;
    if (claim.source.is_wildcard() && (family || !claim.family_only)) wildcard = each->second;
  }
  return wildcard;
}

}  // namespace verbatim::agent::cm
