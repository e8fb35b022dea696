// SPDX-License-Identifier: MIT
// Event channels alone: no device.
#include "lib/mlx5/devx_events.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <vector>

namespace verbatim::mlx5::devx {
namespace {

constexpr size_t kBytes = sizeof(mlx5dv_devx_async_event_hdr) + 64;

hw::DeviceEvent event_of(uint16_t type, const char* kind, uint32_t number, uint8_t mark = 0) {
  hw::DeviceEvent event;
  event.type = type;
  event.kind = kind;
  event.number = number;
  event.entry[7] = mark;
  return event;
}

struct Channels : ::testing::Test {
  std::shared_ptr<Subscriptions> subscriptions = std::make_shared<Subscriptions>();
  std::vector<uint8_t> room = std::vector<uint8_t>(kBytes);
  mlx5dv_devx_async_event_hdr& taken = *reinterpret_cast<mlx5dv_devx_async_event_hdr*>(room.data());

  std::unique_ptr<EventChannel> channel(bool keeps_data) {
    auto made = std::make_unique<EventChannel>(nullptr, subscriptions, keeps_data);
    EXPECT_EQ(made->open(), 0);
    EXPECT_EQ(fcntl(made->shown.fd, F_SETFL, O_NONBLOCK), 0);
    return made;
  }
  void subscribe(EventChannel& to, const EventSource& source, uint64_t cookie, int signal = -1) {
    auto made = std::make_shared<Subscription>();
    made->source = source;
    made->channel = &to;
    made->cookie = cookie;
    made->signal = signal;
    subscriptions->add(std::move(made));
  }
  bool readable(int fd) {
    pollfd ready{fd, POLLIN, 0};
    return poll(&ready, 1, 0) == 1;
  }
};

TEST_F(Channels, TellWhatWasAskedForInOrder) {
  auto one = channel(true);
  subscribe(*one, {4, "CQ", 9}, 100);
  subscribe(*one, {5, "QP", 9}, 200);
  EXPECT_EQ(one->take(taken, kBytes), -EAGAIN);
  subscriptions->tell(event_of(4, "CQ", 8));
  subscriptions->tell(event_of(4, "QP", 9));
  subscriptions->tell(event_of(5, "CQ", 9));
  EXPECT_FALSE(readable(one->shown.fd)) << "of others";
  subscriptions->tell(event_of(5, "QP", 9, 1));
  subscriptions->tell(event_of(4, "CQ", 9, 2));
  EXPECT_TRUE(readable(one->shown.fd));
  EXPECT_EQ(one->take(taken, kBytes - 1), -EINVAL);
  for (const uint8_t mark : {1, 2}) {
    ASSERT_EQ(one->take(taken, kBytes), static_cast<ssize_t>(kBytes));
    EXPECT_EQ(taken.cookie, mark == 1 ? 200u : 100u);
    EXPECT_EQ(taken.out_data[7], mark);
  }
  EXPECT_EQ(one->take(taken, kBytes), -EAGAIN);
  subscriptions->forget(*one);
}

TEST_F(Channels, WithoutDataCombineEvents) {
  auto one = channel(false);
  subscribe(*one, {4, "CQ", 9}, 100);
  subscribe(*one, {4, "CQ", 10}, 200);
  for (int i = 0; i < 5; i++) subscriptions->tell(event_of(4, "CQ", 9));
  subscriptions->tell(event_of(4, "CQ", 10));
  ASSERT_EQ(one->take(taken, 7), -EINVAL);
  ASSERT_EQ(one->take(taken, 8), 8);
  EXPECT_EQ(taken.cookie, 100u);
  subscriptions->tell(event_of(4, "CQ", 9));
  ASSERT_EQ(one->take(taken, kBytes), 8);
  EXPECT_EQ(taken.cookie, 200u);
  ASSERT_EQ(one->take(taken, kBytes), 8) << "again, after it was taken";
  EXPECT_EQ(taken.cookie, 100u);
  EXPECT_EQ(one->take(taken, kBytes), -EAGAIN);
  subscriptions->forget(*one);
}

TEST_F(Channels, SayOnceThatEventsWereLost) {
  auto one = channel(true);
  subscribe(*one, {9, "", 0}, 1);
  for (int i = 0; i < 20000; i++) subscriptions->tell(event_of(9, "", 0));
  EXPECT_EQ(one->take(taken, kBytes), -EOVERFLOW);
  int kept = 0;
  while (one->take(taken, kBytes) > 0) kept++;
  EXPECT_EQ(kept, 1 << 14);
  subscriptions->tell(event_of(9, "", 0));
  EXPECT_EQ(one->take(taken, kBytes), static_cast<ssize_t>(kBytes));
  subscriptions->forget(*one);
}

TEST_F(Channels, SignalDescriptorsInstead) {
  auto one = channel(true);
  const int signal = eventfd(0, EFD_NONBLOCK);
  subscribe(*one, {4, "CQ", 9}, 0, signal);
  for (int i = 0; i < 3; i++) subscriptions->tell(event_of(4, "CQ", 9));
  eventfd_t count = 0;
  EXPECT_EQ(eventfd_read(signal, &count), 0);
  EXPECT_EQ(count, 3u);
  EXPECT_FALSE(readable(one->shown.fd));
  subscriptions->forget(*one);
  EXPECT_LT(fcntl(signal, F_GETFD), 0) << "closed with the subscription";
}

TEST_F(Channels, ForgetObjectsButNotWhatTheyTold) {
  auto one = channel(true), other = channel(false);
  for (EventChannel* each : {one.get(), other.get()}) subscribe(*each, {4, "CQ", 9}, 7);
  subscriptions->tell(event_of(4, "CQ", 9));
  subscriptions->forget("CQ", 9);
  subscriptions->tell(event_of(4, "CQ", 9));
  EXPECT_EQ(one->take(taken, kBytes), static_cast<ssize_t>(kBytes));
  EXPECT_EQ(other->take(taken, kBytes), 8);
  EXPECT_EQ(taken.cookie, 7u);
  EXPECT_EQ(one->take(taken, kBytes), -EAGAIN);
  EXPECT_EQ(other->take(taken, kBytes), -EAGAIN);
}

}  // namespace
}  // namespace verbatim::mlx5::devx
