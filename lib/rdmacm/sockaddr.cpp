// SPDX-License-Identifier: MIT
// Socket addresses of the three families.
#include "lib/rdmacm/sockaddr.h"

#include <endian.h>

namespace verbatim::rdmacm {

socklen_t length_of(const sockaddr* address) {
  if (address == nullptr) return 0;
  switch (address->sa_family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    case AF_IB:
      return sizeof(sockaddr_ib);
    default:
      return 0;
  }
}

__be16 port_of(const sockaddr* address) {
  switch (address->sa_family) {
    case AF_INET:
      return reinterpret_cast<const sockaddr_in*>(address)->sin_port;
    case AF_INET6:
      return reinterpret_cast<const sockaddr_in6*>(address)->sin6_port;
    case AF_IB:
      return htobe16(static_cast<uint16_t>(be64toh(reinterpret_cast<const sockaddr_ib*>(address)->sib_sid)));
    default:
      return 0;
  }
}

void set_service(sockaddr_ib& address, int port_space, uint16_t port) {
  uint64_t mask = 0;
  if (port_space != 0) mask |= RDMA_IB_IP_PS_MASK;
  if (port != 0) mask |= RDMA_IB_IP_PORT_MASK;
  address.sib_sid = htobe64((static_cast<uint64_t>(port_space) << 16) + port);
  address.sib_sid_mask = htobe64(mask);
}

}  // namespace verbatim::rdmacm

extern "C" {

__be16 rdma_get_src_port(rdma_cm_id* id) { return verbatim::rdmacm::port_of(&id->route.addr.src_addr); }

__be16 rdma_get_dst_port(rdma_cm_id* id) { return verbatim::rdmacm::port_of(&id->route.addr.dst_addr); }

}  // extern "C"
