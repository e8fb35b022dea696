// SPDX-License-Identifier: MIT
#include "wire/format/headers.h"

#include <arpa/inet.h>

#include <set>

#include "testing/emitted.h"
#include "wire/format/ip.h"
#include "wire/format/mad.h"

namespace verbatim::roce {
namespace {

using verbatim::testing::expect_on_wire;

Gid gid_of(std::string_view hex) {
  Gid gid;
  const auto bytes = verbatim::testing::from_hex(hex);
  std::copy(bytes.begin(), bytes.end(), gid.bytes.begin());
  return gid;
}

TEST(TransportHeaders, AreOnTheWireAsSpecified) {
  Bth bth;
  bth.opcode = opcode(Transport::kRc, Operation::kSendOnly);
  expect_on_wire(bth, "0400 ffff 0000 0000 0000 0000");
  bth = {opcode(Transport::kXrc, Operation::kFetchAdd),
         true,
         true,
         3,
         0,
         0x8001,
         true,
         true,
         0x123456,
         true,
         0xabcdef};
  expect_on_wire(bth, "b4f0 8001 c012 3456 80ab cdef");
  bth = {static_cast<Opcode>(0xff), false, false, 2, 15, 0x7fff, false, true, 0xffffff, false, 1};
  expect_on_wire(bth, "ff2f 7fff 40ff ffff 0000 0001");
  expect_on_wire(XrcEth{0xabcdef}, "00ab cdef");
  expect_on_wire(Deth{0x80010000, 0x000001}, "8001 0000 0000 0001");
  expect_on_wire(Feth{Feth::kRegion, Feth::kPersistence}, "0000 0012");
  expect_on_wire(Feth{3, 15}, "0000 003f");
  expect_on_wire(Reth{0x0123456789abcdef, 0x11223344, 0x55667788}, "0123 4567 89ab cdef 1122 3344 5566 7788");
  expect_on_wire(AtomicEth{0x0123456789abcdef, 0x11223344, 0xa1a2a3a4a5a6a7a8, 0xb1b2b3b4b5b6b7b8},
                 "0123 4567 89ab cdef 1122 3344 a1a2 a3a4 a5a6 a7a8 b1b2 b3b4 b5b6 b7b8");
  expect_on_wire(AtomicAckEth{0x0123456789abcdef}, "0123 4567 89ab cdef");
  expect_on_wire(ImmDt{htonl(0xcafe0001)}, "cafe 0001");
  expect_on_wire(Ieth{0xcafe0002}, "cafe 0002");
}

TEST(TransportHeaders, AcknowledgeInFourKinds) {
  expect_on_wire(Aeth::ack(0x000007), "1f00 0007");
  expect_on_wire(Aeth::ack(0xffffff, 4), "04ff ffff");
  expect_on_wire(Aeth::rnr_nak(3, 12), "2c00 0003");
  expect_on_wire(Aeth::nak(3, NakCode::kSequenceError), "6000 0003");
  expect_on_wire(Aeth::nak(3, NakCode::kInvalidRequest), "6100 0003");
  expect_on_wire(Aeth::nak(3, NakCode::kRemoteAccess), "6200 0003");
  expect_on_wire(Aeth::nak(3, NakCode::kRemoteOperational), "6300 0003");
  expect_on_wire(Aeth{AckKind::kReserved, 1, 2}, "4100 0002");
  EXPECT_EQ(Aeth::parse(verbatim::testing::from_hex("6200 0003"))->nak_code(), NakCode::kRemoteAccess);
}

TEST(TransportHeaders, CountTimeAndCreditsByCode) {
  EXPECT_EQ(rnr_timer_ns(0), 655'360'000u);
  EXPECT_EQ(rnr_timer_ns(1), 10'000u);
  EXPECT_EQ(rnr_timer_ns(12), 640'000u);
  EXPECT_EQ(rnr_timer_ns(31), 491'520'000u);
  for (uint8_t code = 2; code < 32; code++) EXPECT_GT(rnr_timer_ns(code), rnr_timer_ns(code - 1));
  const uint32_t first[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
  for (uint8_t code = 0; code < std::size(first); code++) EXPECT_EQ(credits_of(code), first[code]);
  EXPECT_EQ(credits_of(30), 32768u);
}

TEST(NetworkHeaders, AreOnTheWireAsSpecified) {
  Ipv4 v4;
  v4.length = 0x3c;
  v4.source = {10, 0, 0, 1};
  v4.destination = {10, 0, 0, 2};
  expect_on_wire(v4, "4500 003c 0000 4000 4011 0000 0a00 0001 0a00 0002");
  v4 = {4, 15, 0x6a, 1500, 0xbeef, false, true, 0x1fff, 1, 6, 0xabcd, {1, 2, 3, 4}, {5, 6, 7, 8}};
  expect_on_wire(v4, "4f6a 05dc beef 3fff 0106 abcd 0102 0304 0506 0708");
  Ipv6 v6{6,
          0x6a,
          0xabcde,
          0x1234,
          kGrhNextHeader,
          0xff,
          gid_of("fe80 0000 0000 0000 0000 0000 0000 0001"),
          gid_of("ff0e 0000 0000 0000 0000 0000 0000 0002")};
  expect_on_wire(v6,
                 "66aa bcde 1234 1bff fe80 0000 0000 0000 0000 0000 0000 0001"
                 "ff0e 0000 0000 0000 0000 0000 0000 0002");
  expect_on_wire(Udp{0xc000, kRocePort, 0x30, 0x1234}, "c000 12b7 0030 1234");
}

TEST(NetworkHeaders, ChecksumAsInRfc1071) {
  Ipv4 ip{4, 5, 0, 0x73, 0, true, false, 0, 0x40, 0x11, 0, {0xc0, 0xa8, 0, 1}, {0xc0, 0xa8, 0, 0xc7}};
  EXPECT_EQ(ip.right_checksum(), 0xb861);
  ip.checksum = 0x1234;
  EXPECT_EQ(ip.right_checksum(), 0xb861);
}

TEST(Mads, HaveTheirHeader) {
  MadHeader header{1, 7, 2, 3, 0x1234, 0x5678, 0x0123456789abcdef, 0x0010, 0xfeedbeef};
  expect_on_wire(header, "0107 0203 1234 5678 0123 4567 89ab cdef 0010 0000 feed beef");
  ClassPortInfo info{1, 2, 0x0100, 0x7ffffff, 18, {}, {}};
  info.redirect = {
      gid_of("fe80 0000 0000 0000 0000 0000 0000 0001"), 0x6a, 5, 0xabcde, 0xffff, 0x8001, 0, 1, 0x80010000};
  info.trap = {
      gid_of("fe80 0000 0000 0000 0000 0000 0000 0002"), 0x6b, 6, 0x12345, 0x1111, 0x7fff, 64, 0x123456, 9};
  expect_on_wire(info,
                 "0102 0100 ffff fff2"
                 "fe80 0000 0000 0000 0000 0000 0000 0001 6a5a bcde ffff 8001 0000 0001 8001 0000"
                 "fe80 0000 0000 0000 0000 0000 0000 0002 6b61 2345 1111 7fff 4012 3456 0000 0009");
}

TEST(Opcodes, KnowTheirHeaders) {
  const auto bytes = [](Transport transport, Operation operation) {
    return int{info_of(opcode(transport, operation)).header_bytes};
  };
  EXPECT_EQ(bytes(Transport::kRc, Operation::kSendMiddle), 12);
  EXPECT_EQ(bytes(Transport::kRc, Operation::kWriteOnlyImmediate), 32);
  EXPECT_EQ(bytes(Transport::kRc, Operation::kFlush), 32);
  EXPECT_EQ(bytes(Transport::kRc, Operation::kAtomicAcknowledge), 24);
  EXPECT_EQ(bytes(Transport::kXrc, Operation::kCompareSwap), 44);
  EXPECT_EQ(bytes(Transport::kXrc, Operation::kAcknowledge), 16);
  EXPECT_EQ(bytes(Transport::kUd, Operation::kSendOnlyImmediate), 24);
  EXPECT_EQ(bytes(Transport::kUc, Operation::kWriteFirst), 28);
  EXPECT_FALSE(info_of(opcode(Transport::kUc, Operation::kReadRequest)).known);
  EXPECT_FALSE(info_of(opcode(Transport::kUc, Operation::kSendOnlyInvalidate)).known);
  EXPECT_FALSE(info_of(opcode(Transport::kUd, Operation::kSendFirst)).known);
  EXPECT_FALSE(info_of(opcode(Transport::kRd, Operation::kSendOnly)).known);
}

TEST(Opcodes, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (int byte = 0; byte < 256; byte++)
    if (info_of(static_cast<Opcode>(byte)).known) names.insert(name_of(static_cast<Opcode>(byte)));
  // 25 of RC and of XRC, 24 of DC, 12 of UC, 2 of UD, CNP
  EXPECT_EQ(names.size(), 89u);
  EXPECT_TRUE(names.contains("RC RDMA WRITE FIRST"));
  EXPECT_TRUE(names.contains("CNP"));
  EXPECT_EQ(name_of(static_cast<Opcode>(0x5f)), "opcode 0x5f");
}

TEST(Opcodes, TellRequestsFromAnswers) {
  const auto request = [](Operation operation) { return info_of(opcode(Transport::kRc, operation)).request; };
  for (const auto answer :
       {Operation::kReadResponseFirst, Operation::kReadResponseMiddle, Operation::kReadResponseLast,
        Operation::kReadResponseOnly, Operation::kAcknowledge, Operation::kAtomicAcknowledge})
    EXPECT_FALSE(request(answer));
  for (const auto asking :
       {Operation::kSendFirst, Operation::kReadRequest, Operation::kFlush, Operation::kAtomicWrite})
    EXPECT_TRUE(request(asking));
  EXPECT_FALSE(info_of(kCnp).request);
}

TEST(Refusals, AllHaveWords) {
  std::set<std::string> reasons;
  const int count = static_cast<int>(Refusal::kCmServiceAddress) + 1;
  for (int i = 0; i < count; i++) reasons.insert(words(static_cast<Refusal>(i)));
  EXPECT_EQ(reasons.size(), static_cast<size_t>(count));
}

}  // namespace
}  // namespace verbatim::roce
