// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace verbatim::agent {

/// Whether `path` is a folder, no link, of this user that nobody else may write to.
bool is_private_folder(const std::string& path);

/// The folders in which the agent and the programs of a user leave files for each other, best first:
/// `verbatim` in /run/user/UID, verbatim-UID in /tmp and in /dev/shm. They are private; what is missing is
/// made. Where a name is somebody else's (anybody may take one in /tmp, and within a user namespace a UID may
/// be that of other users outside), a numbered one stands in for it.
std::vector<std::string> own_folders();

}  // namespace verbatim::agent
