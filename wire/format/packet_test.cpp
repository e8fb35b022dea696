// SPDX-License-Identifier: MIT
#include "wire/format/packet.h"

#include <gtest/gtest.h>

#include <cstring>

#include "testing/emitted.h"
#include "wire/format/datagram.h"

namespace verbatim::roce {
namespace {

using verbatim::testing::from_hex;
using verbatim::testing::kDirt;
using verbatim::testing::to_hex;

Gid gid_of(std::string_view hex) {
  Gid gid;
  const auto bytes = from_hex(hex);
  std::copy(bytes.begin(), bytes.end(), gid.bytes.begin());
  return gid;
}

Envelope over_ipv4() {
  return {gid_of("0000 0000 0000 0000 0000 ffff 0a00 0001"),
          gid_of("0000 0000 0000 0000 0000 ffff 0a00 0002"),
          0xc001,
          kRocePort,
          0,
          true};
}
Envelope over_ipv6() {
  return {gid_of("fd00 0000 0000 0000 0000 0000 0000 0001"),
          gid_of("fd00 0000 0000 0000 0000 0000 0000 0002"),
          0xc001,
          kRocePort,
          0,
          true};
}

/// Different values everywhere.
Headers full_headers(Opcode code) {
  Headers headers;
  headers.bth = {code, true, true, 0, 0, 0x8001, false, false, 0x123456, true, 0xabcdef};
  headers.xrceth = {0x112233};
  headers.deth = {0x11111111, 0x445566};
  headers.feth = {Feth::kRegion, Feth::kGlobalVisibility};
  headers.reth = {0x0102030405060708, 0x22222222, 0x33333333};
  headers.atomic = {0x1112131415161718, 0x44444444, 0x2122232425262728, 0x3132333435363738};
  headers.aeth = Aeth::ack(0x778899, 5);
  headers.atomic_ack = {0x4142434445464748};
  headers.immediate = {0x55555555};
  headers.invalidate = {0x66666666};
  return headers;
}

/// A length that goes with the opcode.
size_t payload_of(const OpcodeInfo& info) {
  switch (info.payload) {
    case PayloadRule::kNone:
      return 0;
    case PayloadRule::kUnpadded:
      return 256;
    case PayloadRule::kEight:
      return 8;
    case PayloadRule::kSixteen:
      return 16;
    case PayloadRule::kAny:
      break;
  }
  return 5;
}

std::vector<uint8_t> written(const Envelope& envelope, const Headers& headers,
                             std::span<const uint8_t> payload) {
  std::vector<uint8_t> buffer(kPacketBytesMax, kDirt);
  buffer.resize(PacketWriter(envelope).write(buffer, headers, payload));
  return buffer;
}

Refusal refusal_of(std::string_view hex) { return Packet::parse(from_hex(hex)).refusal(); }

// The bits, one after the other, of the CRC that the specification defines over the fields that it names.
uint32_t icrc_by_hand(const Envelope& envelope, std::span<const uint8_t> datagram) {
  std::vector<uint8_t> covered(8, 0xff);
  Datagram around;
  around.envelope = envelope;
  around.payload = datagram;
  uint8_t headers[Ipv6::kBytes + Udp::kBytes];
  const size_t count = around.emit_headers(headers);
  const bool ipv4 = envelope.is_ipv4();
  for (const size_t masked :
       ipv4 ? std::vector<size_t>{1, 8, 10, 11, 26, 27} : std::vector<size_t>{1, 2, 3, 7, 46, 47})
    headers[masked] = 0xff;
  if (!ipv4) headers[0] |= 0x0f;
  covered.insert(covered.end(), headers, headers + count);
  covered.insert(covered.end(), datagram.begin(), datagram.end() - 4);
  covered[8 + count + 4] = 0xff;
  uint32_t crc = 0xffffffff;
  for (const uint8_t byte : covered) {
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

uint32_t icrc_in(std::span<const uint8_t> datagram) {
  uint32_t icrc;
  std::memcpy(&icrc, datagram.data() + datagram.size() - 4, 4);
  return icrc;
}

TEST(Packets, OfEveryOpcodeComeBackAsTheyWere) {
  const auto payload = std::vector<uint8_t>(256, 0x5a);
  for (int byte = 0; byte < 256; byte++) {
    const auto code = static_cast<Opcode>(byte);
    const OpcodeInfo& info = info_of(code);
    const Headers headers = full_headers(code);
    const size_t bytes = payload_of(info);
    for (const Envelope& envelope : {over_ipv4(), over_ipv6()}) {
      const auto datagram = written(envelope, headers, std::span(payload).first(bytes));
      if (!info.known) {
        EXPECT_TRUE(datagram.empty());
        continue;
      }
      SCOPED_TRACE(name_of(code));
      ASSERT_EQ(datagram.size(), info.header_bytes + (bytes + 3) / 4 * 4 + 4);
      const auto packet = Packet::parse(datagram);
      ASSERT_TRUE(packet.ok()) << packet.reason();
      EXPECT_EQ(packet->payload.size(), bytes);
      EXPECT_TRUE(std::equal(packet->payload.begin(), packet->payload.end(), payload.begin()));
      EXPECT_EQ(packet->headers.bth.pad, bytes == 5 ? 3 : 0);
      EXPECT_EQ(icrc_in(datagram), icrc_by_hand(envelope, datagram));
      EXPECT_EQ(written(envelope, packet->headers, packet->payload), datagram);
    }
  }
}

TEST(Packets, CarryTheHeadersOfTheirOpcode) {
  const auto datagram =
      written(over_ipv4(), full_headers(opcode(Transport::kXrc, Operation::kWriteOnlyImmediate)),
              from_hex("aabb ccdd ee"));
  EXPECT_EQ(to_hex(std::span(datagram).first(datagram.size() - 4)),
            "abf0 8001 0012 3456 80ab cdef 0011 2233 0102 0304 0506 0708 2222 2222 3333 3333 5555 5555 "
            "aabb ccdd ee00 0000");
  const auto flush = written(over_ipv4(), full_headers(opcode(Transport::kRc, Operation::kFlush)), {});
  EXPECT_EQ(to_hex(std::span(flush).subspan(12, 20)), "0000 0011 0102 0304 0506 0708 2222 2222 3333 3333");
}

TEST(Packets, LeaveTheRestOfADirtyBufferAlone) {
  std::vector<uint8_t> buffer(100, kDirt);
  const Headers headers = full_headers(opcode(Transport::kUd, Operation::kSendOnly));
  const size_t bytes = PacketWriter(over_ipv4()).write(buffer, headers, from_hex("01"));
  ASSERT_EQ(bytes, 28u);
  for (size_t i = bytes; i < buffer.size(); i++) EXPECT_EQ(buffer[i], kDirt);
  EXPECT_EQ(to_hex(std::span(buffer).subspan(20, 4)), "0100 0000");
}

TEST(Packets, AreNotWrittenWhereThereIsNoRoom) {
  const Headers headers = full_headers(opcode(Transport::kRc, Operation::kWriteOnly));
  const PacketWriter writer(over_ipv4());
  for (size_t room = 0; room < 40; room++) {
    std::vector<uint8_t> buffer(room);
    EXPECT_EQ(writer.write(buffer, headers, from_hex("0102 0304 05")), 0u);
    EXPECT_EQ(writer.seal(buffer, headers, 5), 0u);
  }
  std::vector<uint8_t> buffer(40);
  EXPECT_EQ(writer.write(buffer, headers, from_hex("0102 0304 05")), 40u);
}

TEST(Packets, AreTheSameGatheredAndCopied) {
  const auto payload = from_hex("0102 0304 0506 0708 090a 0b0c 0d0e 0f10 1112 1314 15");
  for (const Operation operation : {Operation::kSendOnly, Operation::kWriteOnlyImmediate}) {
    const Headers headers = full_headers(opcode(Transport::kRc, operation));
    for (size_t cut = 0; cut <= payload.size(); cut++) {
      std::vector<uint8_t> packet(kHeaderBytesMax, kDirt);
      auto gathered = PacketWriter(over_ipv6()).begin(packet, headers, payload.size());
      packet.resize(gathered.header_bytes);
      packet.insert(packet.end(), payload.begin(), payload.end());
      gathered.add(std::span(payload).first(cut));
      gathered.add(std::span(payload).subspan(cut));
      std::array<uint8_t, kTailBytesMax> tail;
      tail.fill(kDirt);
      const size_t bytes = gathered.finish(tail);
      packet.insert(packet.end(), tail.begin(), tail.begin() + static_cast<ptrdiff_t>(bytes));
      EXPECT_EQ(packet, written(over_ipv6(), headers, payload));
    }
  }
}

TEST(Packets, AreRefusedForAReason) {
  EXPECT_EQ(refusal_of(""), Refusal::kTooShort);
  EXPECT_EQ(refusal_of("0400 ffff 0000 0001 0000 0000 1111 11"), Refusal::kTooShort);
  EXPECT_EQ(refusal_of("0400 ffff 0000 0001 0000 0000 1111 1111"), Refusal::kNone);
  EXPECT_EQ(refusal_of("4400 ffff 0000 0001 0000 0000 1111 1111"), Refusal::kUnknownOpcode);
  EXPECT_EQ(refusal_of("0401 ffff 0000 0001 0000 0000 1111 1111"), Refusal::kTransportVersion);
  EXPECT_EQ(refusal_of("0a00 ffff 0000 0001 0000 0000 1111 1111"), Refusal::kShorterThanHeaders);
  EXPECT_EQ(refusal_of("0400 ffff 0000 0001 0000 0000 0011 1111 11"), Refusal::kNotWholeWords);
  EXPECT_EQ(refusal_of("0410 ffff 0000 0001 0000 0000 1111 1111"), Refusal::kPadExceedsPayload);
  EXPECT_EQ(refusal_of("0430 ffff 0000 0001 0000 0000 aa00 0000 1111 1111"), Refusal::kNone);
  EXPECT_EQ(refusal_of("0010 ffff 0000 0001 0000 0000 aaaa aa00 1111 1111"), Refusal::kPadInMiddle);
  EXPECT_EQ(refusal_of("0000 ffff 0000 0001 0000 0000 1111 1111"), Refusal::kPayloadSize);
  EXPECT_EQ(refusal_of("1100 ffff 0000 0001 0000 0000 0000 0000 aaaa aaaa 1111 1111"),
            Refusal::kPayloadForbidden);
  EXPECT_EQ(refusal_of("8100 ffff 4000 0001 0000 0000 0000 0000 1111 1111"), Refusal::kPayloadSize);
  std::vector<uint8_t> large(12 + kPathMtuMax + 4);
  large[0] = 4;
  EXPECT_TRUE(Packet::parse(large).ok());
  large.resize(large.size() + 4);
  EXPECT_EQ(Packet::parse(large).refusal(), Refusal::kTooLong);
}

TEST(Icrc, TellsDamageAnywhereButInWhatChangesOnTheWay) {
  for (const Envelope& envelope : {over_ipv4(), over_ipv6()}) {
    auto datagram = written(envelope, full_headers(opcode(Transport::kRc, Operation::kWriteOnly)),
                            std::vector<uint8_t>(100, 0x33));
    EXPECT_TRUE(check_icrc(envelope, datagram, true).right);
    EXPECT_TRUE(Packet::parse(datagram, envelope, true).ok());
    datagram.back() ^= 1;
    EXPECT_EQ(Packet::parse(datagram, envelope, false).refusal(), Refusal::kWrongIcrc);
    datagram.back() ^= 1;
    for (size_t i = 0; i < datagram.size() * 8; i++) {
      datagram[i / 8] = static_cast<uint8_t>(datagram[i / 8] ^ 1 << i % 8);
      EXPECT_EQ(check_icrc(envelope, datagram, true).right, i / 8 == 4) << i;
      datagram[i / 8] = static_cast<uint8_t>(datagram[i / 8] ^ 1 << i % 8);
    }
    Envelope other = envelope;
    other.source_port++;
    EXPECT_FALSE(check_icrc(other, datagram, false).right);
    other = envelope;
    std::swap(other.source, other.destination);
    EXPECT_FALSE(check_icrc(other, datagram, false).right);
    EXPECT_FALSE(check_icrc(envelope, std::span(datagram).first(12), false).right);
  }
}

TEST(Icrc, TellsWithWhichIdentificationItIsRight) {
  for (const size_t bytes : {0u, 3u, 64u, 1024u, 4096u})
    for (const uint32_t number : {0u, 1u, 0x1234u, 0xffffu})
      for (const bool dont_fragment : {true, false}) {
        Envelope sent = over_ipv4(), guess = over_ipv4();
        sent.identification = static_cast<uint16_t>(number);
        sent.dont_fragment = dont_fragment;
        const auto datagram =
            written(sent, full_headers(opcode(Transport::kRc, Operation::kSendOnlyImmediate)),
                    std::vector<uint8_t>(bytes, 0x77));
        guess.identification = 0x0101;
        EXPECT_FALSE(check_icrc(guess, datagram, true).right);
        const IcrcCheck found = check_icrc(guess, datagram, false);
        ASSERT_TRUE(found.right) << bytes << ' ' << number;
        EXPECT_EQ(found.identification, number);
        EXPECT_EQ(found.dont_fragment, dont_fragment);
      }
}

TEST(Icrc, IsHardToGuessWithoutTheIdentification) {
  auto datagram = written(over_ipv4(), full_headers(opcode(Transport::kRc, Operation::kSendOnly)),
                          std::vector<uint8_t>(1024, 0x77));
  int wrong = 0, taken = 0;
  for (size_t i = 12; i < datagram.size(); i++)
    for (int flip = 1; flip < 256; flip++) {
      datagram[i] = static_cast<uint8_t>(datagram[i] ^ flip);
      taken += check_icrc(over_ipv4(), datagram, false).right;
      datagram[i] = static_cast<uint8_t>(datagram[i] ^ flip);
      wrong++;
    }
  // 15 bits are left, and these errors are not of every kind.
  EXPECT_LT(taken, wrong / 8192);
}

TEST(Icrc, CountsIdentificationsThroughSegments) {
  const Headers headers = full_headers(opcode(Transport::kRc, Operation::kSendOnly));
  const PacketWriter writer(over_ipv4());
  for (uint16_t segment = 0; segment < 4; segment++) {
    std::vector<uint8_t> buffer(64);
    buffer.resize(writer.seal(buffer, headers, 8, segment));
    Envelope envelope = over_ipv4();
    envelope.identification = segment;
    EXPECT_TRUE(check_icrc(envelope, buffer, true).right);
  }
}

TEST(Datagrams, HaveTheirHeadersAround) {
  for (Envelope envelope : {over_ipv4(), over_ipv6()}) {
    if (envelope.is_ipv4()) envelope.identification = 0xbeef;
    const auto payload = from_hex("0102 0304 0506");
    Datagram datagram{envelope, 0x6a, 9, envelope.is_ipv4() ? 0u : 0xabcde, 0x4321, payload};
    std::vector<uint8_t> packet(datagram.header_bytes(), kDirt);
    ASSERT_EQ(datagram.emit_headers(packet), packet.size());
    packet.insert(packet.end(), payload.begin(), payload.end());
    packet.push_back(kDirt);  // a frame's padding
    const auto back = Datagram::parse(packet);
    ASSERT_TRUE(back.ok()) << back.reason();
    EXPECT_EQ(back->envelope, envelope);
    EXPECT_EQ(back->traffic_class, 0x6a);
    EXPECT_EQ(back->hop_limit, 9);
    EXPECT_EQ(back->flow_label, datagram.flow_label);
    EXPECT_EQ(back->udp_checksum, 0x4321);
    EXPECT_TRUE(std::equal(back->payload.begin(), back->payload.end(), payload.begin(), payload.end()));
    std::vector<uint8_t> room(datagram.header_bytes() - 1);
    EXPECT_EQ(datagram.emit_headers(room), 0u);
  }
}

TEST(Datagrams, AreRefusedForAReason) {
  const auto refusal = [](std::string_view hex) { return Datagram::parse(from_hex(hex)).refusal(); };
  const std::string rest = "0a00 0001 0a00 0002 c000 12b7 0008 0000";
  EXPECT_EQ(refusal("4500 001c 0000 4000 4011 26cf" + rest), Refusal::kNone);
  EXPECT_EQ(refusal(""), Refusal::kTooShort);
  EXPECT_EQ(refusal("45"), Refusal::kTooShort);
  EXPECT_EQ(refusal("5500 001c 0000 4000 4011 26cf" + rest), Refusal::kIpVersion);
  EXPECT_EQ(refusal("4600 001c 0000 4000 4011 25cf" + rest), Refusal::kIpOptions);
  EXPECT_EQ(refusal("4500 001d 0000 4000 4011 26ce" + rest), Refusal::kIpLength);
  EXPECT_EQ(refusal("4500 001c 0000 4000 4011 26d0" + rest), Refusal::kIpChecksum);
  EXPECT_EQ(refusal("4500 001c 0000 2000 4011 46cf" + rest), Refusal::kFragment);
  EXPECT_EQ(refusal("4500 001c 0000 4000 4006 26da" + rest), Refusal::kNotUdp);
  EXPECT_EQ(refusal("4500 001b 0000 4000 4011 26d0" + rest), Refusal::kTooShort);
  EXPECT_EQ(refusal("4500 001c 0000 4000 4011 26cf 0a00 0001 0a00 0002 c000 12b7 0009 0000"),
            Refusal::kUdpLength);
}

}  // namespace
}  // namespace verbatim::roce
