// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "agent/port_view.h"
#include "tools/doctor/membership.h"
#include "tools/doctor/report.h"

namespace verbatim::doctor {

/// What later checks need of this host.
struct Host {
  agent::PortView port;                    ///< with the GID table
  std::unique_ptr<Membership> membership;  ///< nullptr: programs cannot have one
};

/// Looks at this host alone: the agent, memory, addresses, UDP port 4791, buffers, namespaces.
Host check_host(Report& report);

}  // namespace verbatim::doctor
