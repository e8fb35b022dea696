// SPDX-License-Identifier: MIT
#pragma once

// Events of objects that commands made, and the channels that programs read them from.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>

#include "device/hw/hca.h"
#include "lib/ibverbs/provider.h"
#include "lib/mlx5/public.h"

namespace verbatim::mlx5::devx {

class EventChannel;

/// What a program wants to hear of.
struct EventSource {
  uint16_t type = 0;
  std::string_view kind;  ///< of the object, as prm::object_kind(); "": the device
  uint32_t number = 0;

  auto order() const { return std::tie(type, kind, number); }
  bool operator<(const EventSource& other) const { return order() < other.order(); }
};

struct Subscription {
  EventSource source;
  EventChannel* channel = nullptr;
  uint64_t cookie = 0;
  int signal = -1;       ///< eventfd that gets the event instead of the channel; owned
  bool waiting = false;  ///< in a channel that keeps no data; guarded by the channel
  ~Subscription();
};

/// The subscriptions of a context. Thread safe.
class Subscriptions {
 public:
  void add(std::shared_ptr<Subscription> subscription);
  /// An object is gone; what was told of it stays readable.
  void forget(std::string_view kind, uint32_t number);
  void forget(const EventChannel& channel);
  /// Never blocks; called with locks of the device held.
  void tell(const hw::DeviceEvent& event);

 private:
  std::mutex lock_;
  std::multimap<EventSource, std::shared_ptr<Subscription>> subscriptions_;
};

/// Events behind a descriptor that counts those that wait. Thread safe.
class EventChannel {
 public:
  /// The public part, which comes first.
  mlx5dv_devx_event_channel shown{-1};
  verbs::Context* const context;

  EventChannel(verbs::Context* owner, std::shared_ptr<Subscriptions> subscriptions, bool keeps_data)
      : context(owner), subscriptions_(std::move(subscriptions)), keeps_data_(keeps_data) {}
  ~EventChannel();
  /// Makes the descriptor. 0 or an errno value.
  int open();
  static EventChannel& of(mlx5dv_devx_event_channel* shown) {
    return *reinterpret_cast<EventChannel*>(shown);
  }

  Subscriptions& subscriptions() { return *subscriptions_; }
  void push(const std::shared_ptr<Subscription>& subscription, const hw::DeviceEvent& event);
  /// Takes the oldest event, waiting for one unless the descriptor is non-blocking. The number of bytes; or
  /// -errno: EAGAIN, EINTR, EINVAL it does not fit, EOVERFLOW events were lost.
  ssize_t take(mlx5dv_devx_async_event_hdr& to, size_t room);

 private:
  struct Event {
    uint64_t cookie;
    std::array<uint8_t, 64> entry;
  };
  void count_one();
  bool is_empty() const { return events_.empty() && waiting_.empty(); }

  const std::shared_ptr<Subscriptions> subscriptions_;
  const bool keeps_data_;
  std::mutex lock_;
  std::deque<Event> events_;
  std::deque<std::shared_ptr<Subscription>> waiting_;  ///< of a channel without data, each once
  bool lost_ = false;
};

}  // namespace verbatim::mlx5::devx
