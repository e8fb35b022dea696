// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <vector>

#include "base/expected.h"
#include "engine/host.h"
#include "engine/published.h"

namespace verbatim::agent {

/// The GID table and state of the port.
struct PortView {
  bool up = false;
  std::vector<engine::GidEntry> gids;                               ///< by index; empty entries included
  std::array<engine::PortSetting, engine::kPortsShown> settings{};  ///< by the device's place in the list
};

/// As the agent keeps them; without an agent, as the next one will. Errors: EACCES the agent's name is
/// somebody else's; EPROTO it is of another version; EAGAIN it does not answer.
Expected<PortView> port_view();

}  // namespace verbatim::agent
