// SPDX-License-Identifier: MIT
#pragma once

#include "lib/rdmacm/public.h"

namespace verbatim::rdmacm {

/// Bytes of an address by its family; 0: no address, or of a family that ids do not have.
socklen_t length_of(const sockaddr* address);
/// In network byte order; 0 where there is none.
__be16 port_of(const sockaddr* address);
/// The service that a port number means in a port space, as a native InfiniBand address has it.
void set_service(sockaddr_ib& address, int port_space, uint16_t port);

}  // namespace verbatim::rdmacm
