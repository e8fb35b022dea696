// SPDX-License-Identifier: MIT
// Work queues where frames wait for receive requests, for a while.
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/conformance/one_queue.h"

namespace verbatim::conformance {
namespace {

constexpr Mac kTo{2, 7, 7, 7, 7, 7}, kOther{2, 7, 7, 7, 7, 8};
constexpr size_t kRoom = 4096, kFirst = 16384;
constexpr useconds_t kDelayUs = 100'000;

std::vector<uint8_t> numbered(uint8_t number) {
  return frame_of({.to = kTo, .payload = 40u + number, .seed = number});
}

size_t place(uint64_t id) { return kFirst + id * kRoom; }

void expect_frame(OneQueue& queue, uint64_t id, uint8_t number) {
  const ibv_wc wc = queue.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, id);
  EXPECT_EQ(wc.byte_len, numbered(number).size());
  EXPECT_TRUE(lies_at(queue.self, place(id), numbered(number))) << int{number};
}

/// Frames that were dropped because nothing was there to receive them.
uint64_t dropped(const Endpoint& self) {
  usleep(20'000);  // who looks twice may find what was true some milliseconds ago
  uint64_t value = UINT64_MAX;
  std::ifstream(std::string(self.context->device->ibdev_path) + "/ports/1/hw_counters/out_of_buffer") >>
      value;
  return value;
}

class DelayedDropsBothWays : public testing::TestWithParam<Players> {};
VERBATIM_PLAY_BOTH_WAYS(DelayedDropsBothWays);

TEST_P(DelayedDropsBothWays, FramesWaitForReceiveRequests) {
  conformance::play(
      GetParam(), kFrames,
      [](Endpoint& self) {
        self.barrier();
        for (uint8_t i = 0; i < 6; i++) send(self, numbered(i));
        self.barrier();
        self.barrier();
      },
      [](Endpoint& self) {
        OneQueue queue(self, kTo, {.flags = IBV_WQ_FLAGS_DELAY_DROP});
        self.barrier();
        self.barrier();
        EXPECT_TRUE(queue.quiet());
        for (uint64_t i = 0; i < 4; i++) EXPECT_EQ(queue.post(i, place(i), kRoom), 0);
        for (uint8_t i = 0; i < 4; i++) expect_frame(queue, i, i);
        EXPECT_TRUE(queue.quiet());
        for (uint64_t i = 4; i < 6; i++) EXPECT_EQ(queue.post(i, place(i), kRoom), 0);
        for (uint8_t i = 4; i < 6; i++) expect_frame(queue, i, i);
        self.barrier();
      });
}

class DelayedDrops : public testing::Test {
 protected:
  DelayedDrops() { EXPECT_EQ(sender_.connect({}), 0); }
  Endpoint sender_{kFrames}, receiver_{kFrames};
};

TEST_F(DelayedDrops, ForAWhileOnlyAndThenAgain) {
  OneQueue queue(receiver_, kTo, {.flags = IBV_WQ_FLAGS_DELAY_DROP});
  const uint64_t before = dropped(receiver_);
  for (uint8_t i = 0; i < 3; i++) send(sender_, numbered(i));
  EXPECT_EQ(dropped(receiver_) - before, 0u) << "they wait";
  usleep(2 * kDelayUs);  // nobody polls
  EXPECT_EQ(dropped(receiver_) - before, 3u);
  EXPECT_EQ(queue.post(0, place(0), kRoom), 0);
  EXPECT_TRUE(queue.quiet());
  send(sender_, numbered(7));
  expect_frame(queue, 0, 7);
  send(sender_, numbered(8));
  EXPECT_EQ(queue.post(1, place(1), kRoom), 0);
  expect_frame(queue, 1, 8);
  EXPECT_EQ(dropped(receiver_) - before, 3u);
}

TEST_F(DelayedDrops, AreNoneWithoutTheFlag) {
  OneQueue queue(receiver_, kTo, {});
  const uint64_t before = dropped(receiver_);
  send(sender_, numbered(1));
  EXPECT_EQ(dropped(receiver_) - before, 1u);
  EXPECT_EQ(queue.post(0, place(0), kRoom), 0);
  EXPECT_TRUE(queue.quiet());
}

TEST_F(DelayedDrops, HoldUpNoOtherQueue) {
  OneQueue queue(receiver_, kTo, {.flags = IBV_WQ_FLAGS_DELAY_DROP});
  OneQueue other(receiver_, kOther, {.flags = IBV_WQ_FLAGS_DELAY_DROP});
  EXPECT_EQ(other.post(3, place(3), kRoom), 0);
  send(sender_, numbered(1));
  send(sender_, frame_of({.to = kOther}));
  EXPECT_EQ(other.wait().wr_id, 3u);
  EXPECT_EQ(queue.post(0, place(0), kRoom), 0);
  expect_frame(queue, 0, 1);
}

TEST_F(DelayedDrops, WakeAProgramThatSleeps) {
  ibv_comp_channel* channel = ibv_create_comp_channel(receiver_.context);
  ASSERT_NE(channel, nullptr);
  {
    OneQueue queue(receiver_, kTo, {.flags = IBV_WQ_FLAGS_DELAY_DROP, .channel = channel});
    ASSERT_EQ(ibv_req_notify_cq(queue.cq, 0), 0);
    send(sender_, numbered(1));
    EXPECT_EQ(queue.post(0, place(0), kRoom), 0);
    ibv_cq* of = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &of, &context), 0) << "a post that rings nothing is noticed";
    ibv_ack_cq_events(of, 1);
    expect_frame(queue, 0, 1);
  }
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(DelayedDrops, EndWithTheState) {
  OneQueue queue(receiver_, kTo, {.flags = IBV_WQ_FLAGS_DELAY_DROP});
  send(sender_, numbered(1));
  ASSERT_EQ(queue.move(IBV_WQS_RESET), 0);
  ASSERT_EQ(queue.move(IBV_WQS_RDY), 0);
  EXPECT_EQ(queue.post(0, place(0), kRoom), 0);
  EXPECT_TRUE(queue.quiet());
  send(sender_, numbered(2));
  expect_frame(queue, 0, 2);
  send(sender_, numbered(3));  // goes with the queue
}

// They wait in memory of a fixed size. Lengths tell frames apart.
TEST_F(DelayedDrops, AreDelayedAsFarAsThereIsRoom) {
  constexpr uint32_t kSent = 600;
  constexpr size_t kLeast = 6000;
  OneQueue queue(receiver_, kTo, {.flags = IBV_WQ_FLAGS_DELAY_DROP, .max_wr = 1024});
  const std::vector<uint8_t> frame = frame_of({.to = kTo, .payload = kLeast + kSent});
  for (uint32_t i = 0; i < kSent; i++)
    send(sender_, std::vector<uint8_t>(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(kLeast + i)));
  for (uint32_t i = 0; i < kSent; i++) EXPECT_EQ(queue.post(i, kFirst, 8192), 0);
  ibv_wc wc{};
  uint32_t received = 0;
  while (ibv_poll_cq(queue.cq, 1, &wc) == 1) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.byte_len, kLeast + received++) << "the first of them, in order";
  }
  EXPECT_GT(received, 300u);
  EXPECT_LT(received, 350u) << "2 MiB";
}

TEST_F(DelayedDrops, AreToldByTheDevice) {
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(sender_.context, nullptr, &device), 0);
  EXPECT_NE(device.raw_packet_caps & IBV_RAW_PACKET_CAP_DELAY_DROP, 0u);
}

}  // namespace
}  // namespace verbatim::conformance
