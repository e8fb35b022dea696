// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "device/connectx/event_router.h"
#include "device/connectx/frame_hash.h"
#include "device/connectx/objects.h"
#include "device/connectx/prm/raw_queue.h"
#include "device/connectx/receive_ring.h"
#include "engine/frame_shape.h"
#include "engine/steering.h"

namespace verbatim::connectx {

/// How a frame came to a queue.
struct FrameArrival {
  uint32_t tag;                     ///< of the rule
  FrameHash::Result hash;           ///< by which it was spread
  bool looks_into_tunnels = false;  ///< FrameWishes
};

/// Room for the frames of a device that wait for receive requests, as a port's buffer would have. Thread
/// safe.
class WaitingRoom {
 public:
  static constexpr size_t kBytes = 2 << 20;

  bool take(size_t bytes) {
    if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= kBytes) return true;
    give_back(bytes);
    return false;
  }
  void give_back(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  std::atomic<size_t> used_{0};
};

/// What works behind a receive queue without a queue pair. It may outlive the object while a frame is on its
/// way, but touches nothing then. Thread safe.
///
/// Of a queue that delays drops, frames wait until there is a receive request for them, or until the first of
/// them has waited for kDelayNs: then all of them are dropped, and later ones wait again.
class FrameQueue final : private engine::KeyErrors {
 public:
  static constexpr uint64_t kDelayNs = 100'000'000;

  struct Host {
    engine::Engine& engine;
    EventRouter& events;
    WaitingRoom& waiting_room;
    uint32_t device;  ///< whose port counts
  };
  /// Whether it has to be looked at again: posting to it rings no doorbell.
  enum class Need : uint8_t {
    kNone,
    kPosts,  ///< when the program posts: it flushes
    kSoon,   ///< and when time passes: frames wait
  };

  /// The queue's memory and doorbell record may vanish at any time: they are a program's.
  FrameQueue(const prm::RawQueueSpec& spec, std::byte* ring, const uint32_t* doorbell, CqObject& cq,
             const Host& host);

  Need enter(prm::RqState state, uint32_t number);
  void wish(const engine::FrameWishes& wishes);
  Need take_frame(const engine::ArrivedFrame& frame, const FrameArrival& arrival);
  /// Inside an AccessScope.
  Need look(uint64_t now_ns);
  /// From now on neither memory nor completion queue are touched.
  void close();
  bool failed();

 private:
  enum class Put : uint8_t { kDone, kNoRequest, kFailed };
  struct Waiting {
    std::vector<uint8_t> bytes;
    uint32_t sender;
    FrameArrival arrival;
    size_t cost() const { return sizeof(Waiting) + bytes.size(); }
  };

  void on_key_error(uint32_t key, engine::DataTransform& transform) override;
  Put put(const engine::ArrivedFrame& frame, const FrameArrival& arrival);
  Put put_whole(const engine::ShapedFrame& shaped, engine::FrameFacts& facts);
  Put put_in_strides(const engine::ShapedFrame& shaped, engine::FrameFacts& facts);
  Put take_request();
  Put open_entry(uint32_t need);
  void complete(engine::FrameFacts& facts, uint32_t index, uint32_t bytes);
  Put fail(engine::Status status, const char* why);
  Need let_in(uint64_t now_ns);
  Need need() const;
  void keep(const engine::ArrivedFrame& frame, const FrameArrival& arrival);
  void send_away();
  void flush();

  std::mutex lock_;
  const prm::RawQueueSpec spec_;
  ReceiveRing ring_;
  CqObject& cq_;
  const Host host_;
  engine::FrameWishes wishes_;
  engine::ReceiveWork work_;
  uint32_t strides_used_ = 0;  ///< of the entry in work_; 0: none is begun
  std::deque<Waiting> waiting_;
  uint64_t patience_ns_ = 0;  ///< until when they wait
  prm::RqState state_ = prm::RqState::kRst;
  uint32_t number_ = 0;
  bool closed_ = false;
};

}  // namespace verbatim::connectx
