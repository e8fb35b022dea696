// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "tools/doctor/address.h"

namespace verbatim::doctor {

struct Interface {
  std::string name;
  bool up = false, running = false;  ///< running: there is a link
  uint32_t mtu = 0;
};
/// Its name is empty where there is none.
Interface interface_of(uint32_t index);

/// The way that the kernel would send packets.
struct Route {
  bool local = false;  ///< the address is this host's
  uint32_t interface = 0;
  Gid source;        ///< zero: none
  Gid gateway;       ///< zero: the host is on the link
  uint32_t mtu = 0;  ///< where the route has one of its own, or routers have told
};

/// Errors: ENETUNREACH there is none; EHOSTUNREACH, EACCES, EINVAL the route says unreachable, prohibited,
/// blackhole; and what keeps the kernel from answering.
Expected<Route> route_to(const Address& address);

}  // namespace verbatim::doctor
