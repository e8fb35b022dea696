// SPDX-License-Identifier: MIT
#pragma once

namespace verbatim::stress {

/// Ways in which a machine keeps one process from touching another's memory.
enum class Forbid { kNothing, kByWish, kUndumpable, kSeccomp };

/// "none", "env", "dumpable" or "seccomp"; ends the process for anything else.
Forbid forbid_named(const char* name);
/// From now on this process may not be reached (kUndumpable) or may not reach others (kSeccomp, all of its
/// threads); kByWish sets VERBATIM_NO_CMA, which is read when a device is opened.
void forbid_cross_memory(Forbid how);

}  // namespace verbatim::stress
