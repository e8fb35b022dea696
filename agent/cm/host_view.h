// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "agent/cm/port_table.h"

namespace verbatim::agent::cm {

/// An address of this host that RDMA can use.
struct LocalAddress {
  Gid gid;
  uint32_t gid_index = 0;
  uint32_t interface = 0;
  uint32_t mtu = 0;  ///< of that interface, bytes
};

/// What the connection manager needs to know of the host.
class HostView {
 public:
  virtual ~HostView() = default;
  /// The entry of the GID table for an address.
  virtual std::optional<LocalAddress> find(const SocketAddress& address) const = 0;
  /// The source that the host's routes choose, port 0. `own`: where it is known already, with its interface
  /// (which is that of groups then, whatever the routes say); AF_UNSPEC: it is not. Errors: as of connect():
  /// ENETUNREACH.
  virtual Expected<SocketAddress> source_for(const SocketAddress& destination, const SocketAddress& own,
                                             uint32_t interface) const = 0;
  /// Where the next hop to an address is is known; otherwise the network is asked.
  virtual bool knows_way(const SocketAddress& destination) = 0;
  /// Of ports that nobody asked for.
  virtual PortTable::Range ports() const = 0;
  virtual uint64_t guid() const = 0;
  virtual uint32_t random() = 0;
};

/// Tells a process that a channel has events.
class Bell {
 public:
  virtual ~Bell() = default;
  virtual void ring(uint32_t client, uint32_t channel) = 0;
};

}  // namespace verbatim::agent::cm
