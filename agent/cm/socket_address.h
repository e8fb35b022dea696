// SPDX-License-Identifier: MIT
#pragma once

#include <sys/socket.h>

#include <cstdint>

#include "base/gid.h"

namespace verbatim::agent::cm {

/// An address of the port spaces: IPv4, IPv6 or InfiniBand's own (a GID), and a port. All fields in host
/// order but the bytes of the address itself.
struct SocketAddress {
  uint16_t family = 0;  ///< AF_INET, AF_INET6, AF_IB; AF_UNSPEC: none
  uint16_t port = 0;
  uint32_t scope = 0;  ///< interface of a link-local IPv6 address
  uint32_t flow = 0;   ///< sin6_flowinfo
  Gid address;         ///< IPv4 ones mapped

  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;
  bool is_set() const { return family != 0; }
  /// 0.0.0.0 or :: (the families' own: not of AF_UNSPEC)
  bool is_wildcard() const;
  /// 127.0.0.0/8 or ::1
  bool is_loopback() const;
  bool is_link_local() const;
  bool same_host(const SocketAddress& other) const {
    return address == other.address && scope == other.scope;
  }
};

/// From what a program gave, `bytes` long. A family that is neither IPv4 nor IPv6 comes back with a zero
/// address (so that it is refused where it is used); a structure that is too short gives AF_UNSPEC.
SocketAddress socket_address(const sockaddr* address, socklen_t bytes);
/// The other way round; the bytes that belong to it, 0 for others than IPv4 and IPv6.
socklen_t to_sockaddr(const SocketAddress& address, sockaddr_storage& out);

}  // namespace verbatim::agent::cm
