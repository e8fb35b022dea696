// SPDX-License-Identifier: MIT
#pragma once

#include <unordered_map>

#include "device/connectx/object_numbers.h"
#include "device/connectx/prm/command_unit.h"

namespace verbatim::connectx {

/// Adds up what queue pairs count, those that are gone included: by counter set, and for the port. A queue
/// pair counts for set 0 until it is told otherwise. All calls are made with `numbers.lock` held.
class CounterSets {
 public:
  /// Both must outlive it.
  CounterSets(ObjectNumbers& numbers, prm::ObjectStore& objects) : numbers_(numbers), objects_(objects) {}

  /// ENOENT: there is no such set.
  Outcome attach(uint16_t uid, QpObject& qp, uint32_t set);
  /// The queue pair is about to be destroyed.
  void retire(QpObject& qp);
  Expected<prm::QueueCounts> of_set(uint16_t uid, uint32_t set, bool clear);
  prm::PortCounts port(bool clear);

 private:
  struct Attachment {
    uint32_t set;
    prm::QueueCounts before;  ///< counted for other sets
  };
  uint32_t set_of(const QpObject& qp) const;
  prm::QueueCounts counted(QpObject& qp) const;
  prm::QueueCounts& left_behind(uint32_t set);
  void leave(QpObject& qp);

  ObjectNumbers& numbers_;
  prm::ObjectStore& objects_;
  std::unordered_map<const QpObject*, Attachment> attachments_;  ///< of those that do not count for set 0
  prm::QueueCounts default_left_;  ///< of queue pairs that left set 0, less what was cleared
  prm::PortCounts port_left_;
};

}  // namespace verbatim::connectx
