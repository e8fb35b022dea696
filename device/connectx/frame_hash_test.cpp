// SPDX-License-Identifier: MIT
#include "device/connectx/frame_hash.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace verbatim::connectx {
namespace {

// The key and some of the packets by which receive side scaling is verified everywhere.
constexpr std::array<uint8_t, kToeplitzKeyBytes> kKey{
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

engine::FrameHeaders tcp(std::array<uint8_t, 4> from, int source_port, std::array<uint8_t, 4> to, int port) {
  engine::FrameHeaders headers{};
  headers.network = 4;
  headers.protocol = headers.transport = engine::kProtocolTcp;
  std::memcpy(headers.source_ip, from.data(), 4);
  std::memcpy(headers.destination_ip, to.data(), 4);
  headers.source_port[0] = static_cast<uint8_t>(source_port >> 8);
  headers.source_port[1] = static_cast<uint8_t>(source_port);
  headers.destination_port[0] = static_cast<uint8_t>(port >> 8);
  headers.destination_port[1] = static_cast<uint8_t>(port);
  return headers;
}

/// A TIR's context.
class Context {
 public:
  explicit Context(uint32_t fields, bool symmetric = false) {
    out_.set(prm::Tirc::rx_hash_fn, prm::RxHash::kToeplitz);
    out_.set(prm::Tirc::rx_hash_symmetric, symmetric);
    for (size_t i = 0; i < kKey.size() / 4; i++)
      out_.set(prm::Tirc::rx_hash_toeplitz_key, i,
               uint32_t{kKey[4 * i]} << 24 | uint32_t{kKey[4 * i + 1]} << 16 |
                   uint32_t{kKey[4 * i + 2]} << 8 | kKey[4 * i + 3]);
    out_[prm::Tirc::rx_hash_field_selector_outer].set(prm::RxHashFieldSelect::selected_fields, fields);
  }
  prm::Writer<prm::Tirc> out() { return out_; }
  uint8_t kind(const engine::FrameHeaders& headers) const {
    return FrameHash(prm::View<prm::Tirc>(bytes_)).of(headers).kind;
  }
  uint32_t hash(const engine::FrameHeaders& headers) const {
    return FrameHash(prm::View<prm::Tirc>(bytes_)).of(headers).value;
  }

 private:
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(prm::Tirc::kBits / 8);
  prm::Writer<prm::Tirc> out_{bytes_};
};

TEST(FrameHash, OfKnownPackets) {
  const auto first = tcp({66, 9, 149, 187}, 2794, {161, 142, 100, 80}, 1766);
  const auto second = tcp({199, 92, 111, 2}, 14230, {65, 69, 140, 83}, 4739);
  EXPECT_EQ(Context(3).hash(first), 0x323e8fc2u);
  EXPECT_EQ(Context(15).hash(first), 0x51ccc178u);
  EXPECT_EQ(Context(3).hash(second), 0xd718262au);
  EXPECT_EQ(Context(15).hash(second), 0xc626b0eau);
}

TEST(FrameHash, IsZeroWithoutTheHeaders) {
  auto packet = tcp({66, 9, 149, 187}, 2794, {161, 142, 100, 80}, 1766);
  Context ports(15);
  packet.transport = engine::kProtocolUdp;
  EXPECT_EQ(ports.hash(packet), 0u) << "ports of TCP are asked for";
  ports.out()[prm::Tirc::rx_hash_field_selector_outer].set(prm::RxHashFieldSelect::l4_prot_type, 1);
  EXPECT_EQ(ports.hash(packet), 0x51ccc178u);
  packet.network = 6;
  EXPECT_EQ(ports.hash(packet), 0u);
}

TEST(FrameHash, IsOfThePacketInATunnelWhereItsFieldsAreNamed) {
  const auto outer = tcp({66, 9, 149, 187}, 2794, {161, 142, 100, 80}, 1766);
  auto tunnel = tcp({199, 92, 111, 2}, 14230, {65, 69, 140, 83}, 4739);
  tunnel.inner = outer;
  Context inner(0);
  inner.out()[prm::Tirc::rx_hash_field_selector_inner].set(prm::RxHashFieldSelect::selected_fields, 15);
  EXPECT_EQ(inner.hash(tunnel), 0x51ccc178u);
  EXPECT_EQ(Context(15).hash(tunnel), 0xc626b0eau);
  EXPECT_EQ(inner.hash(outer), 0u) << "in no tunnel";
  EXPECT_EQ(inner.kind(outer), 0);
}

TEST(FrameHash, SaysOfWhatItIs) {
  auto packet = tcp({66, 9, 149, 187}, 2794, {161, 142, 100, 80}, 1766);
  EXPECT_EQ(Context(3).kind(packet), 0x05);
  EXPECT_EQ(Context(15).kind(packet), 0x55);
  EXPECT_EQ(Context(9).kind(packet), 0x41);
  Context udp(15);
  udp.out()[prm::Tirc::rx_hash_field_selector_outer].set(prm::RxHashFieldSelect::l3_prot_type, 1);
  udp.out()[prm::Tirc::rx_hash_field_selector_outer].set(prm::RxHashFieldSelect::l4_prot_type, 1);
  EXPECT_EQ(udp.kind(packet), 0) << "no hash";
  packet.network = 6;
  packet.transport = engine::kProtocolUdp;
  EXPECT_EQ(udp.kind(packet), 0xaa);
  EXPECT_EQ(Context(19).kind(tcp({1, 2, 3, 4}, 0, {1, 2, 3, 5}, 0)), 0) << "no ESP";
}

TEST(FrameHash, MayBeTheSameBothWays) {
  const auto there = tcp({66, 9, 149, 187}, 2794, {161, 142, 100, 80}, 1766);
  const auto back = tcp({161, 142, 100, 80}, 1766, {66, 9, 149, 187}, 2794);
  EXPECT_NE(Context(15).hash(there), Context(15).hash(back));
  EXPECT_EQ(Context(15, true).hash(there), Context(15, true).hash(back));
}

}  // namespace
}  // namespace verbatim::connectx
