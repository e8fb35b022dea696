// SPDX-License-Identifier: MIT
#include "engine/frame_checksums.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace verbatim::engine {
namespace {

using Frame = std::vector<uint8_t>;
constexpr uint8_t kBoth = kNetworkChecksum | kTransportChecksum;

uint8_t right(const Frame& frame) {
  const auto bytes = static_cast<uint32_t>(frame.size());
  return right_checksums(frame.data(), parse_frame(frame.data(), bytes));
}
void write(Frame& frame, uint8_t wanted) {
  write_checksums(frame.data(), static_cast<uint32_t>(frame.size()), wanted);
}

Frame with_ethernet(uint8_t type_high, uint8_t type_low, const Frame& packet) {
  Frame frame(12, 2);
  frame.push_back(type_high);
  frame.push_back(type_low);
  frame.insert(frame.end(), packet.begin(), packet.end());
  return frame;
}

// The header of RFC 1071's examples in the literature: 4500 0073 ... its checksum is b861.
TEST(FrameChecksums, OfAKnownIpv4Header) {
  Frame packet = {0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7};
  packet.resize(0x73);
  Frame frame = with_ethernet(8, 0, packet);
  write(frame, kNetworkChecksum);
  EXPECT_EQ(frame[24] << 8 | frame[25], 0xb861);
  EXPECT_EQ(right(frame) & kNetworkChecksum, kNetworkChecksum);
}

Frame udp(bool odd) {
  Frame packet = {0x45, 0,
                  0,    static_cast<uint8_t>(odd ? 31 : 32),
                  0,    0,
                  0,    0,
                  64,   17,
                  0,    0,
                  10,   0,
                  0,    1,
                  10,   0,
                  0,    2,
                  0x30, 0x39,
                  0,    53,
                  0,    static_cast<uint8_t>(odd ? 11 : 12),
                  0xab, 0xcd,
                  'a',  'b',
                  'c',  'd'};
  if (odd) packet.pop_back();
  return with_ethernet(8, 0, packet);
}

TEST(FrameChecksums, AreRightOnceWrittenAndWrongOnceAByteChanges) {
  for (const bool odd : {false, true}) {
    Frame frame = udp(odd);
    frame.resize(60);  // padding is not of the packet
    frame[55] = 0x5a;
    EXPECT_EQ(right(frame), 0);
    write(frame, kBoth);
    EXPECT_EQ(right(frame), kBoth);
    frame[43] ^= 1;
    EXPECT_EQ(right(frame), kNetworkChecksum);
    frame[43] ^= 1;
    frame[22] ^= 1;  // time to live
    EXPECT_EQ(right(frame), kTransportChecksum);
  }
}

TEST(FrameChecksums, AUdpHeaderOfIpv4MayHaveNone) {
  Frame frame = udp(false);
  write(frame, kNetworkChecksum);
  EXPECT_EQ(right(frame), kNetworkChecksum);
  frame[40] = frame[41] = 0;
  EXPECT_EQ(right(frame), kBoth);
}

TEST(FrameChecksums, OfTcpOverIpv6) {
  Frame packet(60, 0);
  packet[0] = 0x60;
  packet[5] = 20;
  packet[6] = 6;
  for (uint8_t i = 8; i < 40; i++) packet[i] = i;
  packet[52] = 0x50;
  Frame frame = with_ethernet(0x86, 0xdd, packet);
  EXPECT_EQ(right(frame), kNetworkChecksum) << "IPv6 has none";
  write(frame, kBoth);
  EXPECT_EQ(right(frame), kBoth);
}

TEST(FrameChecksums, LeaveOtherFramesAlone) {
  Frame fragment = udp(false);
  fragment[20] = 0x20;  // more follow
  const Frame before = fragment;
  write(fragment, kTransportChecksum);
  EXPECT_EQ(fragment, before);
  Frame arp = with_ethernet(8, 6, Frame(46, 7));
  const Frame same = arp;
  write(arp, kBoth);
  EXPECT_EQ(arp, same);
  EXPECT_EQ(right(arp), 0);
}

}  // namespace
}  // namespace verbatim::engine
