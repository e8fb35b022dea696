// SPDX-License-Identifier: MIT
// The calls for event channels.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <span>
#include <string>

#include "device/connectx/prm/event_types.h"
#include "lib/mlx5/devx.h"
#include "lib/mlx5/devx_events.h"

namespace verbatim::mlx5::devx {
namespace {

constexpr size_t kTypesMax = 311;  ///< of one call, as the kernel takes them

bool may_happen(uint16_t type, bool to_object) {
  const std::span<const prm::Event> events = to_object ? std::span<const prm::Event>(prm::kObjectEvents)
                                                       : std::span<const prm::Event>(prm::kDeviceEvents);
  return std::ranges::find(events, static_cast<prm::Event>(type)) != events.end();
}

bool is_eventfd(int fd) {
  char target[64];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  return std::string_view(target, length > 0 ? static_cast<size_t>(length) : 0) == "anon_inode:[eventfd]";
}

/// Subscribes to all of the types or to none. 0 or an errno value; `signal` as in Subscription.
int subscribe(verbs::Context& context, EventChannel& channel, const mlx5dv_devx_obj* object,
              std::span<const uint16_t> types, uint64_t cookie, int signal) {
  const auto happens = [object](uint16_t type) { return may_happen(type, object != nullptr); };
  if (types.empty() || types.size() > kTypesMax || !std::ranges::all_of(types, happens))
    return verbs::refuse(context, EINVAL,
                         "mlx5dv_devx_subscribe_devx_event: 1 to 311 types of events that happen to " +
                             std::string(object ? "an object" : "the device") + " are needed");
  const Target target = object ? object->target : Target{"", 0};
  for (const uint16_t type : types) {
    auto subscription = std::make_shared<Subscription>();
    subscription->source = {type, target.kind, target.number};
    subscription->channel = &channel;
    subscription->cookie = cookie;
    if (signal >= 0 && (subscription->signal = ::fcntl(signal, F_DUPFD_CLOEXEC, 0)) < 0) return errno;
    channel.subscriptions().add(std::move(subscription));
  }
  return 0;
}

/// The channel's context, if it still works.
verbs::Context* alive(const EventChannel& channel) {
  return channel.context->abandoned ? nullptr : channel.context;
}

}  // namespace

void tell_subscribers(verbs::Context& context, const hw::DeviceEvent& event) {
  if (ContextState* state = ContextState::find(context)) state->subscriptions->tell(event);
}

}  // namespace verbatim::mlx5::devx

using namespace verbatim;
using namespace verbatim::mlx5;
using devx::EventChannel;

extern "C" {

mlx5dv_devx_event_channel* mlx5dv_devx_create_event_channel(ibv_context* public_context,
                                                            mlx5dv_devx_create_event_channel_flags flags) {
  verbs::Context* context = own(public_context);
  if (context == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  constexpr uint32_t kFlags = MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA;
  if ((static_cast<uint32_t>(flags) & ~kFlags) != 0)
    return verbs::refuse_pointer(*context, EINVAL, "mlx5dv_devx_create_event_channel: unknown flags");
  auto channel = std::unique_ptr<EventChannel>(new (std::nothrow) EventChannel(
      context, ContextState::of(*context).subscriptions, (static_cast<uint32_t>(flags) & kFlags) == 0));
  const int error = channel == nullptr ? ENOMEM : channel->open();
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  return &channel.release()->shown;
}

void mlx5dv_devx_destroy_event_channel(mlx5dv_devx_event_channel* shown) {
  EventChannel* channel = &EventChannel::of(shown);
  channel->subscriptions().forget(*channel);
  delete channel;
}

int mlx5dv_devx_subscribe_devx_event(mlx5dv_devx_event_channel* shown, mlx5dv_devx_obj* obj,
                                     uint16_t events_sz, uint16_t events_num[], uint64_t cookie) {
  EventChannel& channel = EventChannel::of(shown);
  verbs::Context* context = devx::alive(channel);
  if (context == nullptr) return EOPNOTSUPP;
  if (events_sz % sizeof events_num[0] != 0)
    return verbs::refuse(*context, EINVAL, "mlx5dv_devx_subscribe_devx_event: events_sz is no multiple of 2");
  return devx::subscribe(*context, channel, obj, {events_num, events_sz / sizeof events_num[0]}, cookie, -1);
}

int mlx5dv_devx_subscribe_devx_event_fd(mlx5dv_devx_event_channel* shown, int fd, mlx5dv_devx_obj* obj,
                                        uint16_t event_num) {
  EventChannel& channel = EventChannel::of(shown);
  verbs::Context* context = devx::alive(channel);
  if (context == nullptr) return EOPNOTSUPP;
  if (::fcntl(fd, F_GETFD) < 0) return EBADF;
  if (!devx::is_eventfd(fd))
    return verbs::refuse(*context, EINVAL, "mlx5dv_devx_subscribe_devx_event_fd: fd is not an eventfd");
  return devx::subscribe(*context, channel, obj, {&event_num, 1}, 0, fd);
}

ssize_t mlx5dv_devx_get_event(mlx5dv_devx_event_channel* shown, mlx5dv_devx_async_event_hdr* event_data,
                              size_t event_resp_len) {
  EventChannel& channel = EventChannel::of(shown);
  const ssize_t bytes = channel.take(*event_data, event_resp_len);
  if (bytes >= 0) return bytes;
  errno = static_cast<int>(-bytes);
  return -1;
}

}  // extern "C"
