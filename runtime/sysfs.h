// SPDX-License-Identifier: MIT
#pragma once

// This process's hold on the files that stand in for /sys/class/infiniband (agent/sysfs_tree.h). Without room
// for them everything else goes on.

#include <string>

#include "agent/port_view.h"

namespace verbatim::runtime {

/// Makes the tree of the devices that list_devices() names, with what the agent, if one runs, knows of
/// addresses, and holds it until the process ends. Returns the path that stands for "/", empty: there is no
/// tree. The first call decides. Thread safe.
const std::string& serve_sysfs();

/// A descriptor that holds the tree, close-on-exec; -1: there is no tree.
int sysfs_hold();

/// Brings the tree, if there is one, up to date. Thread safe.
void refresh_sysfs(const agent::PortView& port);

}  // namespace verbatim::runtime
