// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "device/connectx/objects.h"
#include "device/connectx/prm/raw_queue.h"

namespace verbatim::connectx {

class FailedQueues;

/// A receive or send queue without a queue pair. Nothing takes its entries yet; when it fails, those posted
/// to a receive queue that asked for it complete with an error, also what is posted later.
class RawQueue final : public prm::RawQueueBody {
 public:
  /// The doorbell record may vanish at any time: it is a program's memory.
  RawQueue(const prm::RawQueueSpec& spec, const uint32_t* doorbell, CqObject& cq, FailedQueues& failed)
      : spec_(spec), doorbell_(doorbell), cq_(cq), failed_(failed) {}
  ~RawQueue() override;
  void enter(prm::RqState state, uint32_t number) override;

 private:
  friend FailedQueues;
  void flush();

  const prm::RawQueueSpec spec_;
  const uint32_t* doorbell_;
  CqObject& cq_;
  FailedQueues& failed_;
  uint32_t number_ = 0;
  uint32_t taken_ = 0;
};

/// The queues of a device that flush. Posting to them rings no doorbell, so that they are looked at while the
/// program polls. Thread safe.
class FailedQueues {
 public:
  void look() {
    if (any_.load(std::memory_order_relaxed)) flush_all();
  }
  void add(RawQueue& queue);
  void remove(RawQueue& queue);

 private:
  void flush_all();

  std::mutex lock_;
  std::vector<RawQueue*> queues_;
  std::atomic<bool> any_{false};
};

}  // namespace verbatim::connectx
