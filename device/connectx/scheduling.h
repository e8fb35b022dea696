// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "device/connectx/objects.h"
#include "engine/rate_limit.h"

namespace verbatim::connectx {

/// The trees of scheduling elements of an opened device. Thread safe.
class SchedulingTree {
 public:
  explicit SchedulingTree(const hw::Limits& limits) : limits_(limits) {}

  Expected<uint32_t> create(const hw::SchedulingSpec& spec);
  Outcome modify(uint32_t number, uint32_t mask, const hw::SchedulingSpec& spec);
  Outcome destroy(uint32_t number);
  /// 0: from none.
  Outcome attach(QpObject& qp, uint32_t request_leaf, uint32_t response_leaf);
  void detach(QpObject& qp);
  /// The queue pair has a rate of its own from now on, below that of its leaf; 0: none.
  void pace(QpObject& qp, const hw::QpAttributes& attributes);

 private:
  struct Element {
    hw::SchedulingSpec spec;
    std::shared_ptr<engine::RateLimit> limit;
    uint32_t users = 0;  ///< elements and queue pairs right below it
  };
  Element* find(uint32_t number);
  /// A leaf for `number`, nothing for 0.
  Expected<Element*> leaf(uint32_t number);
  void release(uint32_t number);
  void apply(QpObject& qp, std::unique_lock<std::mutex> hold);

  const hw::Limits& limits_;
  std::mutex lock_;
  std::map<uint32_t, Element> elements_;
  uint32_t last_ = 0, leaves_ = 0;
};

/// The table of rates that send queues name by index. Thread safe.
class PacingTable {
 public:
  explicit PacingTable(const hw::Limits& limits) : limits_(limits) {}
  Expected<uint16_t> take(const hw::PacingSpec& spec, bool dedicated);
  Outcome give_back(uint16_t index);
  bool has(uint16_t index);

 private:
  struct Entry {
    hw::PacingSpec spec;
    bool dedicated = false;
    uint32_t users = 0;
  };
  const hw::Limits& limits_;
  std::mutex lock_;
  std::map<uint16_t, Entry> entries_;
};

}  // namespace verbatim::connectx
