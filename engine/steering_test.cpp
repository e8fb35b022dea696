// SPDX-License-Identifier: MIT
#include "engine/steering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace verbatim::engine {
namespace {

// Targets are compared, never used.
FrameTarget* queue_pair(uintptr_t number) { return reinterpret_cast<FrameTarget*>(number); }

using Frame = std::vector<uint8_t>;

void append(Frame& frame, std::initializer_list<int> bytes) {
  for (const int byte : bytes) frame.push_back(static_cast<uint8_t>(byte));
}

Frame ethernet(int last, int vlan = -1) {
  Frame frame;
  append(frame, {2, 0, 0, 0, 0, last, 2, 0, 0, 0, 0, 0xee});
  if (vlan >= 0) append(frame, {0x81, 0, vlan >> 8, vlan & 0xff});
  return frame;
}

Frame udp_over_ipv4(int last, int port, int vlan = -1, int fragment = 0) {
  Frame frame = ethernet(last, vlan);
  append(frame, {8, 0});
  append(frame, {0x45, 0x10, 0, 32, 0, 0, fragment >> 8, fragment & 0xff, 64, 17, 0, 0});
  append(frame, {10, 0, 0, 1, 10, 0, 0, 2});
  append(frame, {0x30, 0x39, port >> 8, port & 0xff, 0, 12, 0, 0, 1, 2, 3, 4});
  return frame;
}

FrameHeaders headers(const Frame& frame) {
  return parse_frame(frame.data(), static_cast<uint32_t>(frame.size())).headers;
}

FlowRule to_mac(int last, uint16_t priority = 0) {
  FlowRule rule;
  rule.priority = priority;
  const uint8_t mac[6] = {2, 0, 0, 0, 0, static_cast<uint8_t>(last)};
  std::memcpy(rule.value.destination_mac, mac, 6);
  std::memset(rule.mask.destination_mac, 0xff, 6);
  return rule;
}

FlowRule to_port(uint8_t protocol, int port, uint16_t priority = 0) {
  FlowRule rule;
  rule.priority = priority;
  rule.value.transport = protocol;
  rule.mask.transport = 0xff;
  rule.value.destination_port[0] = static_cast<uint8_t>(port >> 8);
  rule.value.destination_port[1] = static_cast<uint8_t>(port);
  std::memset(rule.mask.destination_port, 0xff, 2);
  return rule;
}

/// The numbers of the queue pairs that a frame goes to.
std::vector<uintptr_t> who(const Steering& steering, const Frame& frame) {
  std::vector<uintptr_t> numbers;
  for (const Steering::Target& target : steering.match(headers(frame), 100))
    numbers.push_back(reinterpret_cast<uintptr_t>(target.to));
  std::ranges::sort(numbers);
  return numbers;
}
using Numbers = std::vector<uintptr_t>;

TEST(FrameHeaders, OfAUdpPacketBehindAVlanTag) {
  const Frame frame = udp_over_ipv4(7, 5678, 0x6123);
  const ParsedFrame parsed = parse_frame(frame.data(), static_cast<uint32_t>(frame.size()));
  const FrameHeaders& found = parsed.headers;
  EXPECT_EQ(found.destination_mac[5], 7);
  EXPECT_EQ(found.source_mac[5], 0xee);
  EXPECT_EQ(found.is_tagged, 1);
  EXPECT_EQ(found.vlan[0] << 8 | found.vlan[1], 0x6123);
  EXPECT_EQ(found.ether_type[0], 8);
  EXPECT_EQ(found.network, 4);
  EXPECT_EQ(found.traffic_class, 0x10);
  EXPECT_EQ(found.hop_limit, 64);
  EXPECT_EQ(found.protocol, kProtocolUdp);
  EXPECT_EQ(found.transport, kProtocolUdp);
  EXPECT_EQ(found.source_port[0] << 8 | found.source_port[1], 12345);
  EXPECT_EQ(found.destination_port[0] << 8 | found.destination_port[1], 5678);
  EXPECT_EQ(parsed.network_at, 18u);
  EXPECT_EQ(parsed.transport_at, 38u);
  EXPECT_EQ(parsed.end, 50u);
}

TEST(FrameHeaders, OfTcpBehindAnIpv6Extension) {
  Frame frame = ethernet(1);
  append(frame, {0x86, 0xdd, 0x6a, 0xb5, 0x43, 0x21, 0, 28, 60, 9});
  for (int i = 0; i < 32; i++) append(frame, {i});
  append(frame, {6, 0, 1, 4, 0, 0, 0, 0});  // destination options
  append(frame, {0, 80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0});
  const FrameHeaders found = headers(frame);
  EXPECT_EQ(found.network, 6);
  EXPECT_EQ(found.traffic_class, 0xab);
  EXPECT_EQ(found.flow_label[0] << 16 | found.flow_label[1] << 8 | found.flow_label[2], 0x54321);
  EXPECT_EQ(found.hop_limit, 9);
  EXPECT_EQ(found.source_ip[15], 15);
  EXPECT_EQ(found.destination_ip[0], 16);
  EXPECT_EQ(found.transport, kProtocolTcp);
  EXPECT_EQ(found.source_port[1], 80);
  EXPECT_EQ(found.destination_port[0], 1);
}

TEST(FrameHeaders, StopWhereAFrameEnds) {
  const Frame whole = udp_over_ipv4(7, 5678, 1);
  for (size_t bytes = kFrameBytesMin; bytes < whole.size(); bytes++) {
    const Frame cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_EQ(headers(cut).network, bytes >= 38 ? 4 : 0) << bytes;
    EXPECT_EQ(headers(cut).transport, bytes >= 46 ? kProtocolUdp : 0) << bytes;
  }
  EXPECT_EQ(headers(udp_over_ipv4(7, 5678, -1, 0x2000)).transport, kProtocolUdp) << "the first fragment";
  EXPECT_EQ(headers(udp_over_ipv4(7, 5678, -1, 1)).transport, 0) << "a later one";
}

TEST(Steering, GoesByTheRulesMasks) {
  Steering steering;
  steering.add(queue_pair(1), to_mac(1));
  steering.add(queue_pair(2), to_port(kProtocolUdp, 5678));
  steering.add(queue_pair(3), to_port(kProtocolTcp, 5678));
  EXPECT_EQ(who(steering, udp_over_ipv4(1, 1)), Numbers{1});
  EXPECT_EQ(who(steering, udp_over_ipv4(2, 5678)), Numbers{2});
  EXPECT_EQ(who(steering, udp_over_ipv4(2, 5679)), Numbers{});
}

TEST(Steering, AsksTheLowestPriorityFirstAndThenTheOldest) {
  Steering steering;
  steering.add(queue_pair(1), to_mac(1, 5));
  const uint32_t first = steering.add(queue_pair(2), to_port(kProtocolUdp, 5678, 1));
  EXPECT_EQ(who(steering, udp_over_ipv4(1, 5678)), Numbers{2});
  steering.add(queue_pair(3), to_mac(1, 1));
  EXPECT_EQ(who(steering, udp_over_ipv4(1, 5678)), Numbers{2});
  EXPECT_TRUE(steering.remove(first));
  EXPECT_FALSE(steering.remove(first));
  EXPECT_EQ(who(steering, udp_over_ipv4(1, 5678)), Numbers{3});
  EXPECT_EQ(steering.forget(queue_pair(3)), 1u);
  EXPECT_EQ(who(steering, udp_over_ipv4(1, 5678)), Numbers{1});
}

TEST(Steering, RulesThatSayTheSameAllGetACopy) {
  Steering steering;
  for (uintptr_t i = 1; i <= 3; i++) steering.add(queue_pair(i), to_mac(1));
  steering.add(queue_pair(3), to_mac(1));
  steering.add(queue_pair(4), to_mac(1, 1));
  EXPECT_EQ(who(steering, udp_over_ipv4(1, 1)), (Numbers{1, 2, 3}));
}

TEST(Steering, ARuleMayPassFramesOn) {
  Steering steering;
  FlowRule passing = to_mac(1);
  passing.passes_on = true;
  steering.add(queue_pair(1), passing);
  steering.add(queue_pair(2), to_port(kProtocolUdp, 9, 3));
  EXPECT_EQ(who(steering, udp_over_ipv4(1, 9)), (Numbers{1, 2}));
  EXPECT_EQ(who(steering, udp_over_ipv4(1, 8)), Numbers{1});
}

TEST(Steering, DroppedFramesGoToNobodyElse) {
  Steering steering;
  FlowRule dropping = to_mac(1);
  dropping.drops = true;
  steering.add(queue_pair(1), dropping);
  FlowRule everything;
  everything.kind = FlowRule::Kind::kAllDefault;
  steering.add(queue_pair(2), everything);
  EXPECT_EQ(who(steering, udp_over_ipv4(1, 9)), Numbers{});
  EXPECT_EQ(who(steering, udp_over_ipv4(2, 9)), Numbers{2});
}

TEST(Steering, DefaultsTakeWhatIsLeftAndSniffersSeeAll) {
  Steering steering;
  FlowRule all, multicast, sniffer;
  all.kind = FlowRule::Kind::kAllDefault;
  multicast.kind = FlowRule::Kind::kMulticastDefault;
  multicast.value.destination_mac[0] = multicast.mask.destination_mac[0] = 1;
  sniffer.kind = FlowRule::Kind::kSniffer;
  steering.add(queue_pair(1), all);
  steering.add(queue_pair(2), multicast);
  steering.add(queue_pair(3), sniffer);
  steering.add(queue_pair(4), to_mac(4, 0xffff));
  EXPECT_EQ(who(steering, udp_over_ipv4(4, 9)), (Numbers{3, 4}));
  EXPECT_EQ(who(steering, udp_over_ipv4(5, 9)), (Numbers{1, 3}));
  Frame to_many = udp_over_ipv4(5, 9);
  to_many[0] = 1;
  EXPECT_EQ(who(steering, to_many), (Numbers{2, 3}));
}

TEST(Steering, TagsComeWithTheRule) {
  Steering steering;
  FlowRule rule = to_mac(1);
  rule.tag = 77;
  steering.add(queue_pair(1), rule);
  const auto targets = steering.match(headers(udp_over_ipv4(1, 1)), 100);
  ASSERT_EQ(targets.size(), 1u);
  EXPECT_EQ(targets[0].tag, 77u);
}

}  // namespace
}  // namespace verbatim::engine
