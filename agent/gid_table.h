// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/directory.h"

namespace verbatim::agent {

/// An address of this host, as far as the GID table is concerned.
struct Address {
  std::string interface;
  uint32_t interface_index = 0;
  uint32_t mtu = 0;
  bool loopback = false;
  Gid gid;  ///< IPv6, or IPv4-mapped
};

/// Addresses of all interfaces that are up; a link-local one is made up from the hardware address (EUI-64)
/// for an interface that has none, as the kernel does for RoCE. `link_up`: some interface besides loopback
/// runs, or there is none.
std::vector<Address> host_addresses(bool& link_up);

/// Not an address of loopback alone, and not one that a host without interfaces is given.
bool is_reachable(const Gid& gid);

/// The GIDs that these addresses give, in the order of the table: of the first interface the link-local one,
/// IPv4, the others; then the other interfaces, loopback last; each first as RoCE v2, then all again as RoCE
/// v1.
std::vector<engine::GidEntry> gid_order(std::vector<Address> addresses);

/// Brings a table up to date without moving entries: what is gone becomes empty, what is new takes the first
/// empty entry. True when something changed. `count`: entries in use or once used.
bool merge_gids(engine::GidEntry* table, uint32_t& count, const std::vector<engine::GidEntry>& wanted);

}  // namespace verbatim::agent
