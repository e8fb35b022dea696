// SPDX-License-Identifier: MIT
#pragma once

// Sockets on the port of RoCEv2. One IPv6 socket that speaks IPv4 too stands for both: a GID is its
// sockaddr's address as it is.

#include <netinet/in.h>

#include <cstdint>
#include <vector>

#include "base/expected.h"
#include "base/gid.h"

namespace verbatim::wire::udp {

/// A non-blocking socket that receives from the port of RoCEv2 beside others of the same user, tells where
/// each datagram was sent to and forbids fragmentation. The caller closes it. EADDRINUSE: somebody else has
/// the port.
Expected<int> open_port_socket();
/// The same, but from a port of its own that nobody sends to.
Expected<int> open_sending_socket();
/// The same for packets that are longer than the interface's MTU.
Expected<int> open_fragmenting_socket();

/// What is sent to a group and comes in on this interface is for this socket, too, or not any more.
void set_membership(int socket, const Gid& group, uint32_t interface, bool member);

/// A socket that is bound to the port of RoCEv2.
struct PortHolder {
  uint32_t user = 0;
  uint64_t inode = 0;  ///< 0: the kernel's own
};
/// Those of this network namespace, as far as /proc shows them.
std::vector<PortHolder> port_holders();

/// `scope`: of link-local addresses, the index of the interface.
sockaddr_in6 address_of(const Gid& gid, uint16_t port, uint32_t scope);
Gid gid_of(const in6_addr& address);

}  // namespace verbatim::wire::udp
