// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/steering.h"
#include "lib/ibverbs/public.h"

namespace verbatim::verbs {

/// A set of counters. All rules that count here add to the same numbers; points say where they are read.
struct Counters {
  struct Point {
    uint32_t index;
    ibv_counter_description what;
  };
  ibv_counters base{};
  const std::shared_ptr<engine::FlowCount> count = std::make_shared<engine::FlowCount>();
  std::atomic<uint32_t> flows{0};  ///< rules that count here
  std::mutex lock;                 ///< of the next
  std::vector<Point> points;

  static Counters* of(ibv_counters* counters) { return reinterpret_cast<Counters*>(counters); }
  bool has_points() {
    const std::lock_guard hold(lock);
    return !points.empty();
  }
};

}  // namespace verbatim::verbs
