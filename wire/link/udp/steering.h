// SPDX-License-Identifier: MIT
#pragma once

// Which of the sockets on the port of RoCEv2 gets a packet: a classic BPF program over its BTH. Sockets that
// share a port are numbered by the kernel in the order of their binding; when one is closed, the last takes
// its number.

#include <linux/filter.h>

#include <cstdint>
#include <vector>

#include "base/expected.h"

namespace verbatim::wire::udp {

/// Slots and the number of the socket of the process that has them.
struct Route {
  uint32_t slot = 0, socket = 0;
};

/// Queue pair numbers of these slots go to their sockets, all else to `otherwise`: QP 1, and what nobody has.
std::vector<sock_filter> steering_program(const std::vector<Route>& routes, uint32_t otherwise);

/// Puts the program in force for all sockets that share the port with this one.
Outcome steer(int socket, std::vector<sock_filter> program);

}  // namespace verbatim::wire::udp
