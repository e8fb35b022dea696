// SPDX-License-Identifier: MIT
#include "engine/traffic.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace verbatim::engine {
namespace {

constexpr uint32_t kMtu = 1024;
constexpr Gid kIpv4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1}};
constexpr Gid kIpv6{{0xfd, 0x77}};

TEST(Frames, AreThoseOfTheLink) {
  EXPECT_EQ(frame_bytes(kEthernetPort, kIpv4, true), 14u + 20 + 8 + 12 + 4);
  EXPECT_EQ(frame_bytes(kEthernetPort, kIpv6, true), 14u + 40 + 8 + 12 + 4);
  Port port;
  port.lid = 2;
  EXPECT_EQ(frame_bytes(port, kIpv4, false), 8u + 12 + 4);
  EXPECT_EQ(frame_bytes(port, kIpv4, true), 8u + 40 + 12 + 4);
}

TEST(Exchanges, AreOfPacketsAndTheirAnswers) {
  const uint32_t frame = frame_bytes(kEthernetPort, kIpv4, true);
  const Exchange send = exchange_of(Opcode::kSend, 0, kMtu, frame, true);
  EXPECT_EQ(send.request.packets, 1u);
  EXPECT_EQ(send.request.bytes, frame);
  EXPECT_EQ(send.answer.packets, 1u);
  EXPECT_EQ(send.answer.bytes, frame + 4);
  const Exchange write = exchange_of(Opcode::kWrite, 2 * kMtu + 1, kMtu, frame, false);
  EXPECT_EQ(write.request.packets, 3u);
  EXPECT_EQ(write.request.bytes, 3 * frame + 16 + 2 * kMtu + 4) << "padded to words";
  EXPECT_EQ(write.answer.packets, 0u) << "nothing answers";
  const Exchange read = exchange_of(Opcode::kRead, 2 * kMtu, kMtu, frame, true);
  EXPECT_EQ(read.request.packets, 1u);
  EXPECT_EQ(read.answer.packets, 2u);
  EXPECT_EQ(read.answer.bytes, 2 * frame + 4 + 2 * kMtu);
  const Exchange atomic = exchange_of(Opcode::kFetchAdd, 8, kMtu, frame, true);
  EXPECT_EQ(atomic.request.bytes, frame + 28);
  EXPECT_EQ(atomic.answer.bytes, frame + 4 + 8);
}

// The sender hands over several packets as one segment, the receiver gets each by itself.
TEST(Segments, CountTheSameAtBothEnds) {
  constexpr uint32_t kFrame = 58;
  wire::Segment whole;
  whole.operation = wire::Operation::kWrite;
  whole.transport = wire::Transport::kRc;
  whole.flags = wire::kFirst | wire::kLast;
  whole.packets = 3;
  whole.length = 2 * kMtu + 10;
  const PacketCount sent = packets_of_segment(whole, kFrame);
  PacketCount arrived;
  for (uint32_t i = 0; i < 3; i++) {
    wire::Segment packet = whole;
    packet.flags = static_cast<uint16_t>((i == 0 ? wire::kFirst : 0) | (i == 2 ? wire::kLast : 0));
    packet.packets = 1;
    packet.length = i == 2 ? 10 : kMtu;
    const PacketCount each = packets_of_segment(packet, kFrame);
    arrived.bytes += each.bytes;
    arrived.packets += each.packets;
  }
  EXPECT_EQ(sent.packets, 3u);
  EXPECT_EQ(arrived.packets, sent.packets);
  EXPECT_EQ(arrived.bytes, sent.bytes);
}

TEST(Traffic, StaysWithThePortWhereItWas) {
  // Most of it is never touched.
  void* memory = mmap(nullptr, sizeof(Published), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* published = static_cast<Published*>(memory);
  PublishedTraffic& traffic = published->traffic[16];
  traffic.sent_bytes = 100;
  traffic.answered_bytes = 10;
  traffic.read = 1;
  settle_traffic(*published, traffic, 0);
  EXPECT_EQ(traffic.sent_bytes, 100u) << "the next queue pair is of the same device";
  settle_traffic(*published, traffic, 3);
  const auto count = [&](uint32_t device, PortCount what) {
    return published->ports[device].counts[static_cast<size_t>(what)].load();
  };
  EXPECT_EQ(traffic.sent_bytes, 0u);
  EXPECT_EQ(count(0, PortCount::kSentBytes), 110u);
  EXPECT_EQ(count(0, PortCount::kReads), 1u);
  EXPECT_EQ(count(3, PortCount::kSentBytes), 0u);
  munmap(memory, sizeof(Published));
}

}  // namespace
}  // namespace verbatim::engine
