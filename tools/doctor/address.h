// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "agent/cm/socket_address.h"
#include "base/expected.h"

namespace verbatim::doctor {

using Address = agent::cm::SocketAddress;

/// An IP address or host name, with %INTERFACE where it is link-local, or a GID in any spelling of an IPv6
/// address. Errors: what the resolver says.
Expected<Address> find_address(const std::string& host);

/// "10.0.0.1", "fd00::1"
std::string text_of(const Gid& gid);

}  // namespace verbatim::doctor
