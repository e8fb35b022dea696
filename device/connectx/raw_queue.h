// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device/connectx/event_router.h"
#include "device/connectx/frame_hash.h"
#include "device/connectx/objects.h"
#include "device/connectx/prm/raw_queue.h"
#include "device/connectx/receive_ring.h"
#include "engine/steering.h"

namespace verbatim::connectx {

class FailedQueues;

/// What works behind a receive queue without a queue pair. It may outlive the object while a frame is on its
/// way, but touches nothing then. Thread safe.
class FrameQueue final : private engine::KeyErrors {
 public:
  /// The queue's memory and doorbell record may vanish at any time: they are a program's.
  FrameQueue(const prm::RawQueueSpec& spec, std::byte* ring, const uint32_t* doorbell, CqObject& cq,
             engine::Engine& engine, EventRouter& events);

  /// Returns whether what is posted is to be flushed now.
  bool enter(prm::RqState state, uint32_t number);
  void wish(const engine::FrameWishes& wishes);
  /// A frame, spread over queues by `hash`. True: the queue has failed by it, and flushes from now on.
  bool take_frame(const engine::ArrivedFrame& frame, uint32_t tag, uint32_t hash);
  /// Ends what is posted with errors.
  void flush();
  /// From now on neither memory nor completion queue are touched.
  void close();
  bool closed();
  bool failed();

 private:
  void on_key_error(uint32_t key, engine::DataTransform& transform) override;
  bool fail(engine::Status status, const char* why);

  std::mutex lock_;
  const prm::RawQueueSpec spec_;
  ReceiveRing ring_;
  CqObject& cq_;
  engine::Engine& engine_;
  EventRouter& events_;
  engine::FrameWishes wishes_;
  engine::ReceiveWork work_;
  prm::RqState state_ = prm::RqState::kRst;
  uint32_t number_ = 0;
  bool closed_ = false;
};

/// A receive or send queue without a queue pair. Nothing takes the entries of a send queue.
class RawQueue final : public prm::RawQueueBody {
 public:
  RawQueue(std::shared_ptr<FrameQueue> queue, FailedQueues& failed)
      : queue_(std::move(queue)), failed_(failed) {}
  ~RawQueue() override;
  void enter(prm::RqState state, uint32_t number) override;
  void wish(const engine::FrameWishes& wishes) override { queue_->wish(wishes); }
  bool has_failed() override { return queue_->failed(); }
  const std::shared_ptr<FrameQueue>& queue() const { return queue_; }

 private:
  const std::shared_ptr<FrameQueue> queue_;
  FailedQueues& failed_;
};

/// The queues of a device that flush. Posting to them rings no doorbell, so that they are looked at while the
/// program polls. Thread safe.
class FailedQueues {
 public:
  void look() {
    if (any_.load(std::memory_order_relaxed)) flush_all();
  }
  void add(std::shared_ptr<FrameQueue> queue);
  void remove(const FrameQueue& queue);

 private:
  void flush_all();

  std::mutex lock_;
  std::vector<std::shared_ptr<FrameQueue>> queues_;
  std::atomic<bool> any_{false};
};

/// Spreads frames over receive queues: a TIR at work. Thread safe.
class SpreadTarget final : public engine::FrameTarget {
 public:
  struct Plan {
    FrameHash hash;
    std::vector<std::shared_ptr<FrameQueue>> queues;  ///< nullptr: one that takes no frames
  };
  SpreadTarget(std::shared_ptr<const Plan> plan, FailedQueues& failed)
      : plan_(std::move(plan)), failed_(failed) {}
  void follow(std::shared_ptr<const Plan> plan);
  void take_frame(const engine::ArrivedFrame& frame, uint32_t tag) override;

 private:
  std::mutex lock_;
  std::shared_ptr<const Plan> plan_;
  FailedQueues& failed_;
};

}  // namespace verbatim::connectx
