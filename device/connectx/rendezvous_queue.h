// SPDX-License-Identifier: MIT
#pragma once

#include <deque>

#include "base/spinlock.h"
#include "device/connectx/tag_list.h"
#include "engine/work.h"

namespace verbatim::connectx {

/// The send queue of a queue pair that has none of its own and receives into a queue with a tag list: for
/// each rendezvous that found an entry it reads the data and tells the sender. Two work requests each, so
/// that index 2n is a read and 2n + 1 the message after it. Thread safe.
class RendezvousQueue final : public engine::SendQueue {
 public:
  static constexpr uint32_t kOutstandingMax = 64;

  explicit RendezvousQueue(TagList& tags) : tags_(tags) {}

  void set_qpn(uint32_t qpn) { qpn_ = qpn; }
  void add(const TagMatch& match);
  /// What has not ended is forgotten.
  void reset();

  Fetch fetch(uint32_t index, engine::SendWork& work, uint32_t& next, const char*& reason) override;
  void complete(const engine::SendCompletion& completion) override;

 private:
  struct Job {
    TagMatch match;
    struct {
      TagHeader header;
      RendezvousHeader where;
    } message;  ///< that says it is done
  };

  TagList& tags_;
  uint32_t qpn_ = 0;
  SpinLock lock_;
  std::deque<Job> jobs_;  ///< whose message has not ended
  uint32_t first_ = 0;    ///< running number of the first of them
};

}  // namespace verbatim::connectx
