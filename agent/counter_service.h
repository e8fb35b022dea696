// SPDX-License-Identifier: MIT
#pragma once

// Keeps the counters in trees that stand in for /sys (sysfs_tree.h) true. A reader just opens a file; so the
// agent holds a write lease on each of them: the kernel makes whoever opens one wait, tells the agent, and
// the agent writes what the counter is now before it lets the reader have the file. Until the reader has
// closed it, the file is written again every few milliseconds, in case it is read again. Nothing is written
// while nobody looks.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/port_counters.h"
#include "base/clock.h"
#include "base/expected.h"

namespace verbatim::agent {

/// One thread, the same one from the first `serve` on: the kernel's signals go to it.
class CounterService {
 public:
  /// `path`: where sums of processes that have gone outlive the agent. `add_living`: adds those that live.
  CounterService(std::string path, std::function<void(HostSums&)> add_living);
  ~CounterService();
  CounterService(const CounterService&) = delete;
  CounterService& operator=(const CounterService&) = delete;

  /// From now on the counters of this tree are true; doing it again does nothing. EINVAL: it is no tree of
  /// this user.
  Outcome serve(const std::string& root);
  /// Readable when somebody has opened a counter; -1: nothing is served.
  int file() const { return signals_; }
  /// Lets those in who wait.
  void let_readers_in();
  /// When `step` has something to do; kNever.
  uint64_t deadline_ns() const { return refresh_at_ns_; }
  void step(uint64_t now_ns);
  /// Trees may have been removed.
  void forget_removed();

  /// A process has gone, which had this published memory.
  void process_gone(int published_file);

 private:
  struct Counter {
    int file;
    uint32_t device;
    const CounterFile* what;
    bool leased = false;
    uint64_t written = UINT64_MAX;  ///< nothing was yet
  };
  struct Tree {
    std::string root;
    uint64_t inode;  ///< of its folder: another may come to have the name
    std::vector<Counter> counters;
  };
  bool prepare();
  void add_device(Tree& tree, const std::string& folder, uint32_t device);
  bool lease(Counter& counter) const;
  void write(Counter& counter);
  void wait_for_closing();
  const HostSums& sums();

  const std::string path_;
  const std::function<void(HostSums&)> add_living_;
  const SystemClock clock_;
  HostSums gone_, sums_{};
  uint64_t summed_at_ns_ = 0, sums_for_ns_ = 0;  ///< when the sums were made, and how long they will do
  int signals_ = -1;
  uint64_t refresh_at_ns_ = kNever;
  std::vector<Tree> trees_;
};

/// Where the agent of that name keeps sums in this network namespace; empty: nowhere.
std::string sums_path(const std::string& agent);

}  // namespace verbatim::agent
