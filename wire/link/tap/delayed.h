// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace verbatim::wire::tap {

/// Things that wait for a time, or until so many others have passed them by. One thread at a time.
template <class Thing>
class Delayed {
 public:
  /// `overtakers` 0: the time alone counts.
  void add(uint64_t due_ns, uint32_t overtakers, Thing thing) {
    waiting_.push_back({due_ns, overtakers, std::move(thing)});
  }
  bool empty() const { return waiting_.empty(); }
  uint64_t next_ns() const {
    uint64_t next = kNever;
    for (const Waiting& each : waiting_) next = std::min(next, each.due_ns);
    return next;
  }
  /// So many others have gone.
  void note_passed(uint32_t count) {
    for (Waiting& each : waiting_) {
      if (each.overtakers == 0) continue;
      each.overtakers -= std::min(each.overtakers, count);
      if (each.overtakers == 0) each.due_ns = 0;
    }
  }
  /// What need not wait any longer, in the order in which that became so.
  std::vector<Thing> take_due(uint64_t now_ns) {
    const auto late = std::stable_partition(waiting_.begin(), waiting_.end(),
                                            [now_ns](const Waiting& each) { return each.due_ns > now_ns; });
    std::stable_sort(late, waiting_.end(),
                     [](const Waiting& a, const Waiting& b) { return a.due_ns < b.due_ns; });
    std::vector<Thing> due;
    for (auto each = late; each != waiting_.end(); ++each) due.push_back(std::move(each->thing));
    waiting_.erase(late, waiting_.end());
    return due;
  }
  void clear() { waiting_.clear(); }

 private:
  struct Waiting {
    uint64_t due_ns;
    uint32_t overtakers;
    Thing thing;
  };
  std::vector<Waiting> waiting_;
};

}  // namespace verbatim::wire::tap
