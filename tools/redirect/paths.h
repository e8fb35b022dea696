// SPDX-License-Identifier: MIT
#pragma once

// Which paths are redirected, and where to. Called anywhere in somebody else's program: in signal handlers,
// between vfork and exec, before any constructor. So nothing here allocates or locks, and a path that is none
// of these costs a comparison.

#include <cstddef>

namespace verbatim::redirect {

/// Longest path that is redirected, its end included; longer ones name nothing in the tree.
inline constexpr size_t kPathMax = 512;

/// True for /sys/class/infiniband, /sys/class/infiniband_verbs, the PCI functions that their links lead to,
/// /dev/infiniband and what is below them, and the devices' clocks, when there is a tree. `path` may be a null pointer.
bool concerns(const char* path);

/// Whether a path, as openat() takes it, is in the tree, also when it got there by way of a folder.
bool is_served(int folder, const char* path);

/// Where such a path really is.
class Target {
 public:
  explicit Target(const char* path);
  const char* path() const { return text_; }

 private:
  char text_[kPathMax];
};

}  // namespace verbatim::redirect
