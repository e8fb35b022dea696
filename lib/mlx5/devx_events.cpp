// SPDX-License-Identifier: MIT
#include "lib/mlx5/devx_events.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace verbatim::mlx5::devx {
namespace {

/// Beyond it events of a channel are lost, as on a machine whose kernel has no memory left.
constexpr size_t kWaitingMax = 1u << 14;

void add_one(int fd) {
  while (::eventfd_write(fd, 1) != 0 && errno == EINTR) {
  }
}

}  // namespace

Subscription::~Subscription() {
  if (signal >= 0) ::close(signal);
}

void Subscriptions::add(std::shared_ptr<Subscription> subscription) {
  const std::lock_guard hold(lock_);
  const EventSource source = subscription->source;
  subscriptions_.emplace(source, std::move(subscription));
}

void Subscriptions::forget(std::string_view kind, uint32_t number) {
  const std::lock_guard hold(lock_);
  std::erase_if(subscriptions_,
                [&](const auto& each) { return each.first.kind == kind && each.first.number == number; });
}

void Subscriptions::forget(const EventChannel& channel) {
  const std::lock_guard hold(lock_);
  std::erase_if(subscriptions_, [&](const auto& each) { return each.second->channel == &channel; });
}

void Subscriptions::tell(const hw::DeviceEvent& event) {
  const std::lock_guard hold(lock_);
  const auto [first, last] = subscriptions_.equal_range({event.type, event.kind, event.number});
  for (auto each = first; each != last; ++each) {
    const std::shared_ptr<Subscription>& subscription = each->second;
    if (subscription->signal >= 0)
      add_one(subscription->signal);
    else
      subscription->channel->push(subscription, event);
  }
}

EventChannel::~EventChannel() {
  if (shown.fd >= 0) ::close(shown.fd);
}

int EventChannel::open() {
  shown.fd = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  return shown.fd < 0 ? errno : 0;
}

void EventChannel::count_one() { add_one(shown.fd); }

void EventChannel::push(const std::shared_ptr<Subscription>& subscription, const hw::DeviceEvent& event) {
  const std::lock_guard hold(lock_);
  if (!keeps_data_) {
    if (subscription->waiting) return;
    subscription->waiting = true;
    waiting_.push_back(subscription);
  } else if (events_.size() < kWaitingMax) {
    events_.push_back({subscription->cookie, event.entry});
  } else {
    lost_ = true;
    return;
  }
  count_one();
}

ssize_t EventChannel::take(mlx5dv_devx_async_event_hdr& to, size_t room) {
  for (;;) {
    {
      const std::lock_guard hold(lock_);
      if (std::exchange(lost_, false)) return -EOVERFLOW;
    }
    eventfd_t one;
    if (::eventfd_read(shown.fd, &one) != 0) return -errno;
    const std::lock_guard hold(lock_);
    if (is_empty()) continue;
    const size_t bytes = sizeof to + (keeps_data_ ? sizeof(Event::entry) : 0);
    if (bytes > room) {
      count_one();
      return -EINVAL;
    }
    if (keeps_data_) {
      const Event& event = events_.front();
      to.cookie = event.cookie;
      std::memcpy(to.out_data, event.entry.data(), event.entry.size());
      events_.pop_front();
    } else {
      to.cookie = waiting_.front()->cookie;
      waiting_.front()->waiting = false;
      waiting_.pop_front();
    }
    return static_cast<ssize_t>(bytes);
  }
}

}  // namespace verbatim::mlx5::devx
