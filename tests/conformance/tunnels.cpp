// SPDX-License-Identifier: MIT
// Packets in tunnels: spread over work queues by what is inside, and checked there.
#include "tests/conformance/spread_table.h"

namespace verbatim::conformance {
namespace {

constexpr Mac kTo{2, 8, 8, 8, 8, 8}, kInside{2, 8, 8, 8, 8, 9};
using Bytes = std::vector<uint8_t>;

/// The Toeplitz hash, by its definition: each bit of it is the parity of the input's bits under a part of the
/// key that begins one bit later.
uint32_t toeplitz(const Bytes& input) {
  const auto bit = [](const auto& bytes, size_t i) { return bytes[i / 8] >> (7 - i % 8) & 1; };
  uint32_t hash = 0;
  for (size_t j = 0; j < 32; j++) {
    int parity = 0;
    for (size_t i = 0; i < input.size() * 8; i++) parity ^= bit(input, i) & bit(kKey, i + j);
    hash = hash << 1 | static_cast<uint32_t>(parity);
  }
  return hash;
}

/// Of a frame's addresses and ports, which lie one behind the other.
uint32_t hash_of(const Bytes& frame) {
  const bool ipv4 = frame[12] == 8;
  const size_t at = 14 + (ipv4 ? 12 : 8), bytes = (ipv4 ? 8 : 32) + 4;
  return toeplitz(Bytes(frame.begin() + at, frame.begin() + at + bytes));
}

Bytes packet_of(const Bytes& frame) { return Bytes(frame.begin() + 14, frame.end()); }

Bytes join(Bytes first, const Bytes& second) {
  append(first, second);
  return first;
}

/// Makes the sum of an IPv4 header right, or wrong by `error`.
void sum_up(Bytes& frame, size_t at, uint32_t error = 0) {
  uint32_t sum = error;
  frame[at + 10] = frame[at + 11] = 0;
  for (size_t i = 0; i < 20; i += 2) sum += uint32_t{frame[at + i]} << 8 | frame[at + i + 1];
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  frame[at + 10] = static_cast<uint8_t>(~sum >> 8);
  frame[at + 11] = static_cast<uint8_t>(~sum);
}

/// Frames that carry another frame, or its packet.
struct Tunnel {
  const char* name;
  Bytes (*around)(const Bytes& inner);
};

const Tunnel kOfFrames[] = {
    {"VXLAN",
     [](const Bytes& inner) {
       return carrying(kTo, 17, join({8, 0, 0, 0, 0, 0, 7, 0}, inner), 4789);
     }},
    {"Geneve",
     [](const Bytes& inner) {
       return carrying(kTo, 17, join({0, 0, 0x65, 0x58, 0, 0, 7, 0}, inner), 6081);
     }},
    {"Geneve with options",
     [](const Bytes& inner) {
       return carrying(kTo, 17, join({2, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 1, 9, 9, 9, 9}, inner), 6081);
     }},
    {"GRE with a key",
     [](const Bytes& inner) {
       return carrying(kTo, 47, join({0x20, 0, 0x65, 0x58, 0, 0, 0, 7}, inner));
     }},
};
const Tunnel kOfIpv4[] = {
    {"GRE",
     [](const Bytes& inner) {
       return carrying(kTo, 47, join({0, 0, 8, 0}, packet_of(inner)));
     }},
    {"Geneve",
     [](const Bytes& inner) {
       return carrying(kTo, 17, join({0, 0, 8, 0, 0, 0, 7, 0}, packet_of(inner)), 6081);
     }},
    {"IP in IP", [](const Bytes& inner) { return carrying(kTo, 4, packet_of(inner)); }},
    {"IPv4 in IPv6",
     [](const Bytes& inner) {
       Bytes frame = frame_of({.to = kTo, .network = 6, .payload = 0});
       frame.resize(14 + 40);
       append(frame, packet_of(inner));
       frame[14 + 4] = 0;
       frame[14 + 5] = static_cast<uint8_t>(inner.size() - 14);
       frame[14 + 6] = 4;
       return frame;
     }},
};
const Tunnel kOfIpv6[] = {
    {"GRE",
     [](const Bytes& inner) {
       return carrying(kTo, 47, join({0, 0, 0x86, 0xdd}, packet_of(inner)));
     }},
    {"IPv6 in IPv4", [](const Bytes& inner) { return carrying(kTo, 41, packet_of(inner)); }},
};

constexpr uint64_t kInner = IBV_RX_HASH_INNER;
constexpr uint64_t kTcp4 =
    IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP;
constexpr uint64_t kUdp6 =
    IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6 | IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;

/// With a rule that ends before the table's queue pair.
struct SteeredTable : SpreadTable {
  using SpreadTable::SpreadTable;
  Rule rule;
};

class Tunnels : public testing::Test {
 protected:
  Tunnels() {
    EXPECT_EQ(sender_.connect({}), 0);
    EXPECT_EQ(rule_.to(kTo).tag(3).priority(2).put_in_force(receiver_), 0);
  }
  void steer(SteeredTable& table, uint64_t fields) {
    ASSERT_NE(table.spread(fields, true), nullptr);
    ASSERT_EQ(table.rule.to(kTo).put_in_force(table.qp), 0);
  }
  /// Sends a frame, which comes to that queue and is received there again afterwards.
  void expect_in(SpreadTable& table, size_t queue, const Bytes& frame) {
    send(sender_, frame);
    const ibv_wc wc = table.wait(queue);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.byte_len, frame.size());
    EXPECT_TRUE(lies_at(receiver_, SpreadTable::place(queue, wc.wr_id), frame));
    EXPECT_EQ(table.post(queue, wc.wr_id, kRoom), 0);
    EXPECT_TRUE(table.quiet());
  }
  Endpoint sender_{kFrames}, receiver_{kFrames};
  Rule rule_;
};

/// The same inner flow in different outer ones, and different inner ones in the same.
template <size_t kCount>
std::vector<Bytes> wrap(const Tunnel (&tunnels)[kCount], const Bytes& inner) {
  std::vector<Bytes> frames;
  for (const Tunnel& tunnel : tunnels)
    for (uint8_t outer = 1; outer < 4; outer++) {
      frames.push_back(tunnel.around(inner));
      frames.back()[14 + 15] = static_cast<uint8_t>(outer * 37);  // of the outer source address
    }
  return frames;
}

TEST_F(Tunnels, SpreadByWhatIsInside) {
  SteeredTable table(receiver_);
  steer(table, kTcp4 | kInner);
  size_t taken[kQueues] = {};
  for (int flow = 0; flow < 12; flow++) {
    const Bytes inner = frame_of({.to = kInside,
                                  .transport = 6,
                                  .ip = 0x0b000001u + static_cast<uint32_t>(flow),
                                  .port = 1000 + flow * 7});
    const size_t queue = hash_of(inner) % kQueues;
    taken[queue]++;
    for (const Bytes& frame : wrap(kOfFrames, inner)) expect_in(table, queue, frame);
    for (const Bytes& frame : wrap(kOfIpv4, inner)) expect_in(table, queue, frame);
  }
  for (const size_t each : taken) EXPECT_GT(each, 0u) << "the flows are of all queues";
}

TEST_F(Tunnels, SpreadIpv6AndUdpInside) {
  SteeredTable table(receiver_);
  steer(table, kUdp6 | kInner);
  for (int flow = 0; flow < 8; flow++) {
    const Bytes inner =
        frame_of({.to = kInside, .network = 6, .ip = static_cast<uint32_t>(flow), .port = 53});
    const size_t queue = hash_of(inner) % kQueues;
    for (const Bytes& frame : wrap(kOfFrames, inner)) expect_in(table, queue, frame);
    for (const Bytes& frame : wrap(kOfIpv6, inner)) expect_in(table, queue, frame);
  }
}

TEST_F(Tunnels, GoToTheFirstWithoutTheHeadersInside) {
  SteeredTable table(receiver_);
  steer(table, kTcp4 | kInner);
  int elsewhere = 0;
  for (int flow = 0; flow < 8; flow++) {
    const Bytes plain = frame_of({.to = kTo, .transport = 6, .port = 1000 + flow});
    elsewhere += hash_of(plain) % kQueues != 0 ? 1 : 0;
    expect_in(table, 0, plain);                                                                // in no tunnel
    expect_in(table, 0, kOfFrames[0].around(frame_of({.to = kInside, .port = 1000 + flow})));  // of UDP
  }
  EXPECT_GT(elsewhere, 0) << "by its own headers it would not";
  Bytes version = kOfFrames[1].around(frame_of({.to = kInside, .transport = 6, .port = 1001}));
  version[14 + 20 + 8] |= 0x40;
  expect_in(table, 0, version);  // of Geneve that nobody knows
}

TEST_F(Tunnels, SpreadByTheOuterHeadersWhereThoseAreNamed) {
  SteeredTable table(receiver_);
  steer(table, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4);
  const Bytes inner = frame_of({.to = kInside, .transport = 6});
  for (const Bytes& frame : wrap(kOfFrames, inner))
    expect_in(table, toeplitz(Bytes(frame.begin() + 26, frame.begin() + 34)) % kQueues, frame);
}

TEST_F(Tunnels, AreToldOfInCompletions) {
  SteeredTable table(receiver_);
  steer(table, kTcp4 | kInner);
  const Bytes inner = frame_of({.to = kInside, .transport = 6});
  const size_t queue = hash_of(inner) % kQueues;
  constexpr int kTcp = 1, kIpv4 = 2;
  const struct {
    const Tunnel& tunnel;
    int bits;
  } kTold[] = {{kOfFrames[0], 1}, {kOfIpv4[2], 1}, {kOfIpv4[3], 3}};
  uint32_t taken = 0;
  for (const auto& [tunnel, bits] : kTold) {
    expect_in(table, queue, tunnel.around(inner));
    const uint8_t* entry = completion_at(table.cqs[queue], taken++);
    EXPECT_EQ(entry[0] & 3, bits) << tunnel.name;
    uint32_t hash = 0;
    for (int i = 12; i < 16; i++) hash = hash << 8 | entry[i];
    EXPECT_EQ(hash, hash_of(inner)) << tunnel.name;
    EXPECT_EQ(entry[16], 0x55) << "IPv4 and TCP, both ends";
    EXPECT_EQ(entry[29] >> 2 & 3, kIpv4) << tunnel.name;
    EXPECT_EQ(entry[29] >> 4 & 7, kTcp) << tunnel.name;
  }
}

/// Whether a queue pair says that checksums are right.
class TunnelChecks : public Tunnels {
 protected:
  bool right(const Bytes& frame) {
    EXPECT_EQ(receiver_.receive(0, 1024), 0);
    send(sender_, frame);
    const ibv_wc wc = receiver_.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    return (wc.wc_flags & IBV_WC_IP_CSUM_OK) != 0;
  }
  /// An IPv4 packet in UDP in another, with header sums that are wrong by so much.
  static Bytes frame(uint32_t outer_error, uint32_t inner_error) {
    Bytes inner = frame_of({.to = kInside});
    sum_up(inner, 14, inner_error);
    Bytes outer = kOfFrames[0].around(inner);
    sum_up(outer, 14, outer_error);
    return outer;
  }
  void remake_receiver(uint32_t special) {
    rule_.end();
    ASSERT_EQ(remake(receiver_, {.special = special}), 0);
    ASSERT_EQ(again_.to(kTo).put_in_force(receiver_), 0);
  }
  Rule again_;
};

TEST_F(TunnelChecks, AreOfBothPacketsWhereTunnelsAreLookedInto) {
  remake_receiver(MLX5DV_QP_CREATE_TUNNEL_OFFLOADS);
  EXPECT_TRUE(right(frame(0, 0)));
  EXPECT_FALSE(right(frame(0, 1)));
  EXPECT_FALSE(right(frame(1, 0)));
  Bytes plain = frame_of({.to = kTo});
  sum_up(plain, 14);
  EXPECT_TRUE(right(plain));
}

TEST_F(TunnelChecks, AreOfTheOuterPacketOtherwise) {
  remake_receiver(0);
  EXPECT_TRUE(right(frame(0, 0)));
  EXPECT_TRUE(right(frame(0, 1)));
  EXPECT_FALSE(right(frame(1, 0)));
}

TEST_F(Tunnels, AreToldByTheDevice) {
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(sender_.context, nullptr, &device), 0);
  EXPECT_NE(device.rss_caps.rx_hash_fields_mask & kInner, 0u);
  mlx5dv_context direct{};
  direct.comp_mask = MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS;
  ASSERT_EQ(mlx5dv_query_device(sender_.context, &direct), 0);
  EXPECT_EQ(direct.tunnel_offloads_caps,
            static_cast<uint32_t>(MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_VXLAN |
                                  MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GRE |
                                  MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GENEVE));
}

TEST_F(Tunnels, AreLookedIntoForAHashOfWhatIsInside) {
  SpreadTable table(receiver_);
  errno = 0;
  EXPECT_EQ(table.spread(kTcp4 | kInner, false), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace verbatim::conformance
