// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <unordered_map>

#include "agent/cm/socket_address.h"
#include "base/expected.h"
#include "wire/format/cm_service.h"

namespace verbatim::agent::cm {

/// Which ports are taken in which port space, and who listens: conflicts as the kernel's rdma_cm sees them.
class PortTable {
 public:
  /// Whoever claims a port, by a number that is the caller's.
  using Owner = uint64_t;
  struct Claim {
    roce::cm::PortSpace space{};
    SocketAddress source;  ///< port 0: any
    bool reuse_address = false;
    bool family_only = false;  ///< an IPv6 wildcard leaves IPv4 alone
    bool listening = false;
  };
  struct Range {
    uint16_t first = 32768, last = 60999;
  };

  /// Claims a port; the number is the result. EADDRINUSE: somebody has this address; EADDRNOTAVAIL: a
  /// wildcard is in the way, or no port is free. `random` decides where the search for a free port starts.
  Expected<uint16_t> claim(Owner owner, Claim claim, Range range, uint32_t random);
  /// The owner's source address, now known better.
  void set_source(Owner owner, const SocketAddress& source);
  void set_options(Owner owner, bool reuse_address, bool family_only);
  /// From now on it listens. Those who share the port by reuse_address stand in the way now.
  Outcome listen(Owner owner);
  void release(Owner owner);
  /// Who listens at this port of this address, a wildcard included; 0: nobody.
  Owner listener(roce::cm::PortSpace space, const SocketAddress& destination) const;

 private:
  using Port = uint32_t;  ///< space << 16 | port
  static Port port_of(roce::cm::PortSpace space, uint16_t port) {
    return static_cast<uint32_t>(space) << 16 | port;
  }
  Outcome check(Owner owner, const Claim& claim, bool reuse) const;
  uint16_t free_port(const Claim& claim, Range range, uint32_t random);

  std::unordered_map<Owner, Claim> claims_;
  std::multimap<Port, Owner> ports_;
  uint16_t last_ = 0;  ///< given without being asked for: not again at once
};

}  // namespace verbatim::agent::cm
