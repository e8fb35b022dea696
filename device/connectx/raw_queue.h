// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device/connectx/frame_queue.h"
#include "engine/alarms.h"

namespace verbatim::connectx {

/// The queues of a device that flush, or have frames that wait. Posting to them rings no doorbell, so that
/// they are looked at while the program polls, and those where frames wait every so often. Thread safe.
class WatchedQueues final : private engine::Alarm {
 public:
  explicit WatchedQueues(engine::Engine& engine) : engine_(engine) {}
  ~WatchedQueues() override;
  WatchedQueues(const WatchedQueues&) = delete;
  WatchedQueues& operator=(const WatchedQueues&) = delete;

  void look() {
    if (any_.load(std::memory_order_relaxed)) look_at_all();
  }
  /// Looks at it, too.
  void add(std::shared_ptr<FrameQueue> queue);
  void remove(const FrameQueue& queue);
  WaitingRoom& waiting_room() { return waiting_room_; }

 private:
  void ring(uint64_t now_ns) override;
  bool look_at_all();

  engine::Engine& engine_;
  WaitingRoom waiting_room_;
  std::mutex lock_;
  std::vector<std::shared_ptr<FrameQueue>> queues_;
  std::atomic<bool> any_{false};
};

/// A receive or send queue without a queue pair. Nothing takes the entries of a send queue.
class RawQueue final : public prm::RawQueueBody {
 public:
  RawQueue(std::shared_ptr<FrameQueue> queue, WatchedQueues& watched)
      : queue_(std::move(queue)), watched_(watched) {}
  ~RawQueue() override;
  void enter(prm::RqState state, uint32_t number) override;
  void wish(const engine::FrameWishes& wishes) override { queue_->wish(wishes); }
  bool has_failed() override { return queue_->failed(); }
  const std::shared_ptr<FrameQueue>& queue() const { return queue_; }

 private:
  const std::shared_ptr<FrameQueue> queue_;
  WatchedQueues& watched_;
};

/// Spreads frames over receive queues: a TIR at work. Thread safe.
class SpreadTarget final : public engine::FrameTarget {
 public:
  struct Plan {
    FrameHash hash;
    std::vector<std::shared_ptr<FrameQueue>> queues;  ///< nullptr: one that takes no frames
  };
  SpreadTarget(std::shared_ptr<const Plan> plan, WatchedQueues& watched)
      : plan_(std::move(plan)), watched_(watched) {}
  void follow(std::shared_ptr<const Plan> plan);
  void take_frame(const engine::ArrivedFrame& frame, uint32_t tag) override;

 private:
  std::mutex lock_;
  std::shared_ptr<const Plan> plan_;
  WatchedQueues& watched_;
};

}  // namespace verbatim::connectx
