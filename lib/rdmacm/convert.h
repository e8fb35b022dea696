// SPDX-License-Identifier: MIT
#pragma once

// Between the agent's records and the public ones.

#include "agent/cm/protocol.h"
#include "lib/rdmacm/public.h"

namespace verbatim::rdmacm {

inline void set_gid(ibv_gid& to, const Gid& from) { std::memcpy(to.raw, &from, sizeof to.raw); }

ibv_ah_attr to_public(const agent::cm::AddressVector& from);
/// Leaves alone what the mask does not name.
void to_public(const agent::cm::QpAttributes& from, ibv_qp_attr& to);
ibv_sa_path_rec to_public(const agent::cm::PathRecord& from);
/// The first path of the program's.
agent::cm::PathRecord from_public(const ibv_path_data& from);
/// False: the address is of no family that the agent knows.
bool from_public(const sockaddr* from, agent::cm::SocketAddress& to);
/// False: there is none.
bool to_public(const agent::cm::SocketAddress& from, int port_space, sockaddr_storage& to);
/// The port space that the service id of an address of InfiniBand's stands for; 0: none that an id of
/// `port_space` may have.
int space_of(const sockaddr_ib& address, int port_space);

}  // namespace verbatim::rdmacm
