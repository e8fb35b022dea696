// SPDX-License-Identifier: MIT
#pragma once

// A tree of files that stands in for /sys, where programs can read it. All processes of a user whose trees
// would be equal share one, under a name made from a key. Whoever uses it holds a shared lock on its folder,
// which the kernel lets go of when the process ends, however it ends; a folder whose lock can be had belongs
// to nobody and is removed by its last user, by the agent when a process has gone, or by the next one that
// makes a tree.

#include <memory>
#include <string>
#include <vector>

#include "agent/sysfs_entries.h"

namespace verbatim::agent {

/// A hold on a tree. Not thread safe.
class SysfsTree {
 public:
  /// Makes the tree or takes hold of it, bringing its contents up to date, in the first folder where that
  /// works: the agent's, then one in /dev/shm. Error: the errno value of the last attempt.
  static Expected<std::unique_ptr<SysfsTree>> publish(const std::string& key,
                                                      const std::vector<SysfsEntry>& entries);
  /// Removes the tree if nobody else holds it.
  ~SysfsTree();
  SysfsTree(const SysfsTree&) = delete;
  SysfsTree& operator=(const SysfsTree&) = delete;

  /// Brings the contents up to date; each file changes as a whole. False: some could not be written.
  bool refresh(const std::vector<SysfsEntry>& entries);
  /// The absolute path that stands for "/".
  const std::string& root() const { return root_; }
  /// The descriptor that holds the lock, close-on-exec; a duplicate of it holds the tree, too.
  int file() const { return file_; }

 private:
  SysfsTree(std::string root, int file) : root_(std::move(root)), file_(file) {}
  static std::unique_ptr<SysfsTree> hold(const std::string& root);
  static std::unique_ptr<SysfsTree> build(const std::string& folder, const std::string& root,
                                          const std::vector<SysfsEntry>& entries);

  const std::string root_;
  const int file_;
};

/// Removes the trees of this user that nobody holds.
void sweep_sysfs_trees();

}  // namespace verbatim::agent
