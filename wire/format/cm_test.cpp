// SPDX-License-Identifier: MIT
#include "wire/format/cm.h"

#include "testing/emitted.h"
#include "wire/format/cm_service.h"

namespace verbatim::roce::cm {
namespace {

using verbatim::testing::from_hex;
using verbatim::testing::kDirt;
using verbatim::testing::to_hex;

Gid gid_of(uint8_t last) {
  Gid gid;
  gid.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  return gid;
}

Path some_path(uint8_t seed) {
  return {static_cast<uint16_t>(0x1100 + seed),
          0xffff,
          gid_of(seed),
          gid_of(static_cast<uint8_t>(seed + 1)),
          0xabcde,
          0x2a,
          0x6a,
          0x40,
          0xb,
          true,
          0x13,
          false};
}

template <size_t kBytes>
void fill(Private<kBytes>& data, uint8_t first) {
  for (uint8_t& byte : data) byte = first++;
}

/// The message from the MAD's data on, `head` and then private data that counts up from `first`.
template <class T>
void expect_message(const T& message, const std::string& head, uint8_t first) {
  std::vector<uint8_t> bytes = from_hex(head);
  ASSERT_LE(bytes.size(), kMadDataBytes);
  while (bytes.size() < kMadDataBytes) bytes.push_back(first++);
  verbatim::testing::expect_on_wire(message, to_hex(bytes));
}

const std::string kPath11 =
    "1111 ffff fe80 0000 0000 0000 0000 0000 0000 0011 fe80 0000 0000 0000 0000 0000 0000 0012 abcd e02a "
    "6a40 b898";
const std::string kNoPath = std::string(88, '0');

TEST(ConnectionMessages, Req) {
  Req req;
  req.local_comm_id = 0x01020304;
  req.vendor_id = 0x0002c9;
  req.service_id = service_id(PortSpace::kTcp, 0x1c48);
  req.local_ca_guid = 0x1122334455667788;
  req.local_qkey = 0x0a0b0c0d;
  req.local_qpn = 0x123456;
  req.responder_resources = 16;
  req.local_eecn = 0x234567;
  req.initiator_depth = 8;
  req.remote_eecn = 0x345678;
  req.remote_cm_response_timeout = 20;
  req.transport_service = TransportService::kExtended;
  req.end_to_end_flow_control = true;
  req.starting_psn = 0xabcdef;
  req.local_cm_response_timeout = 21;
  req.retry_count = 7;
  req.pkey = 0x8001;
  req.path_mtu = 3;
  req.rdc_exists = true;
  req.rnr_retry_count = 6;
  req.max_cm_retries = 15;
  req.srq = true;
  req.extended_transport = kXrcTransport;
  req.primary = some_path(0x11);
  fill(req.private_data, 0x30);
  const std::string head =
      "0102 0304 0000 02c9 0000 0000 0106 1c48 1122 3344 5566 7788 0000 0000 0a0b 0c0d 1234 5610 2345 6708 "
      "3456 78a7 "
      "abcd efaf 8001 3e f9";
  expect_message(req, head + kPath11 + kNoPath, 0x30);
  req.alternate = some_path(0x11);
  req.alternate.sap_supported = true;
  expect_message(req, head + kPath11 + kPath11.substr(0, kPath11.size() - 2) + "9c", 0x30);
}

TEST(ConnectionMessages, MraAndRej) {
  Mra mra{1, 2, Answered::kRep, 19, {}};
  fill(mra.private_data, 1);
  expect_message(mra, "0000 0001 0000 0002 4098", 1);

  Rej rej{1, 2, Answered::kOther, 4, RejectReason::kByConsumer, {}, {}};
  rej.info[0] = 0xaa;
  rej.info[71] = 0xbb;
  fill(rej.private_data, 7);
  expect_message(rej, "0000 0001 0000 0002 8008 001c aa" + std::string(140, '0') + "bb", 7);
  EXPECT_EQ(rej.known_info().size(), 4u);
  rej.info_length = 127;
  EXPECT_EQ(rej.known_info().size(), 72u);
}

TEST(ConnectionMessages, Rep) {
  Rep rep;
  rep.local_comm_id = 0x01020304;
  rep.remote_comm_id = 0x05060708;
  rep.local_qkey = 0x0a0b0c0d;
  rep.local_qpn = 0x123456;
  rep.vendor_id = 0xa1b2c3;
  rep.local_eecn = 0x234567;
  rep.starting_psn = 0xabcdef;
  rep.responder_resources = 16;
  rep.initiator_depth = 8;
  rep.target_ack_delay = 15;
  rep.failover_accepted = 2;
  rep.end_to_end_flow_control = true;
  rep.rnr_retry_count = 7;
  rep.srq = true;
  rep.local_ca_guid = 0x1122334455667788;
  fill(rep.private_data, 0x40);
  expect_message(
      rep, "0102 0304 0506 0708 0a0b 0c0d 1234 56a1 2345 67b2 abcd efc3 1008 7df0 1122 3344 5566 7788", 0x40);
}

TEST(ConnectionMessages, RtuDreqDrep) {
  Rtu rtu{1, 2, {}};
  fill(rtu.private_data, 3);
  expect_message(rtu, "0000 0001 0000 0002", 3);
  Dreq dreq{1, 2, 0x123456, {}};
  fill(dreq.private_data, 4);
  expect_message(dreq, "0000 0001 0000 0002 1234 5600", 4);
  Drep drep{3, 4, {}};
  fill(drep.private_data, 5);
  expect_message(drep, "0000 0003 0000 0004", 5);
}

TEST(ConnectionMessages, LapAndApr) {
  Lap lap{1, 2, 0x123456, 0x1e, some_path(0x11), {}};
  fill(lap.private_data, 6);
  expect_message(lap,
                 "0000 0001 0000 0002 0000 0000 1234 56f0 0000 0000"
                 "1111 ffff fe80 0000 0000 0000 0000 0000 0000 0011 fe80 0000 0000 0000 0000 0000 0000 0012"
                 "abcd e06a 402a b898",
                 6);
  Apr apr{1, 2, 72, AlternatePathStatus::kInvalidServiceLevel, {}, {}};
  fill(apr.info, 0x50);
  fill(apr.private_data, 0x50 + 72);
  expect_message(apr, "0000 0001 0000 0002 480d 0000", 0x50);
}

TEST(ConnectionMessages, SidrReqAndSidrRep) {
  SidrReq request{0x01020304, 0x8001, service_id(PortSpace::kUdp, 7174), {}};
  fill(request.private_data, 9);
  expect_message(request, "0102 0304 8001 0000 0000 0000 0111 1c06", 9);
  SidrRep reply{0x01020304,         SidrStatus::kNoQp, 72, 0xa1b2c3, 0x123456,
                0x1122334455667788, 0x01234567,        {}, {}};
  fill(reply.info, 0x60);
  fill(reply.private_data, 0x60 + 72);
  expect_message(reply, "0102 0304 0348 a1b2 1234 56c3 1122 3344 5566 7788 0123 4567", 0x60);
}

TEST(Messages, ComeBackAsTheirKind) {
  const Body bodies[] = {Req{},  Mra{},     Rej{},     Rep{}, Rtu{}, Dreq{},
                         Drep{}, SidrReq{}, SidrRep{}, Lap{}, Apr{}};
  std::string names;
  for (const Body& body : bodies) {
    const Message message = Message::of(body, 0x1122334455667788);
    std::vector<uint8_t> mad(kMadBytes + 4, kDirt);
    ASSERT_EQ(message.emit(mad), kMadBytes);
    EXPECT_EQ(mad[kMadBytes], kDirt);
    EXPECT_EQ(to_hex(std::span(mad).first(16)), "0107 0203 0000 0000 1122 3344 5566 7788");
    const auto back = Message::parse(std::span(mad).first(kMadBytes));
    ASSERT_TRUE(back.ok()) << back.reason();
    EXPECT_EQ(*back, message);
    names += name_of(back->body) + std::string(" ");
    EXPECT_EQ(message.emit(std::span(mad).first(kMadBytes - 1)), 0u);
  }
  EXPECT_EQ(names, "REQ MRA REJ REP RTU DREQ DREP SIDR_REQ SIDR_REP LAP APR ");
}

TEST(Messages, HaveTheAttributesOfTheirBodies) {
  Message message = Message::of(Rtu{}, 1);
  message.body = Drep{};
  std::vector<uint8_t> mad(kMadBytes);
  message.emit(mad);
  EXPECT_EQ(MadHeader::parse(mad)->attribute, 0x16);
}

TEST(Messages, AreRefusedForAReason) {
  std::vector<uint8_t> mad(kMadBytes);
  Message::of(Rtu{}, 1).emit(mad);
  const auto with = [&](size_t byte, uint8_t value) {
    std::vector<uint8_t> changed = mad;
    changed[byte] = value;
    return Message::parse(changed).refusal();
  };
  EXPECT_EQ(with(0, 1), Refusal::kNone);
  EXPECT_EQ(with(0, 2), Refusal::kMadVersion);
  EXPECT_EQ(with(1, 3), Refusal::kMadClass);
  EXPECT_EQ(with(2, 1), Refusal::kMadClassVersion);
  EXPECT_EQ(with(3, 1), Refusal::kMadMethod);
  EXPECT_EQ(with(17, 0x0f), Refusal::kMadAttribute);
  EXPECT_EQ(with(17, 0x1b), Refusal::kMadAttribute);
  mad.pop_back();
  EXPECT_EQ(Message::parse(mad).refusal(), Refusal::kTooShort);
}

TEST(IpService, SaysWhoAsks) {
  const auto address = [](std::string_view hex) {
    Gid gid;
    const auto bytes = from_hex(hex);
    std::copy(bytes.begin(), bytes.end(), gid.bytes.begin());
    return gid;
  };
  const auto expect = [](const ServiceHeader& header, std::string_view hex) {
    std::vector<uint8_t> bytes(ServiceHeader::kBytes, kDirt);
    ASSERT_EQ(header.emit(bytes), ServiceHeader::kBytes);
    EXPECT_EQ(bytes, from_hex(hex));
    EXPECT_EQ(*ServiceHeader::parse(bytes), header);
    bytes.pop_back();
    EXPECT_EQ(header.emit(bytes), 0u);
    EXPECT_EQ(ServiceHeader::parse(bytes).refusal(), Refusal::kTooShort);
  };
  expect({false, 0xc001, address("0000 0000 0000 0000 0000 ffff 0a00 0001"),
          address("0000 0000 0000 0000 0000 ffff 0a00 0002")},
         "0040 c001 0000 0000 0000 0000 0000 0000 0a00 0001 0000 0000 0000 0000 0000 0000 0a00 0002");
  expect({true, 0xc001, gid_of(1), gid_of(2)},
         "0060 c001 fe80 0000 0000 0000 0000 0000 0000 0001 fe80 0000 0000 0000 0000 0000 0000 0002");
  std::vector<uint8_t> bytes(ServiceHeader::kBytes);
  EXPECT_EQ(ServiceHeader::parse(bytes).refusal(), Refusal::kCmServiceAddress);
  bytes[0] = 0x10;
  EXPECT_EQ(ServiceHeader::parse(bytes).refusal(), Refusal::kCmServiceVersion);
}

TEST(IpService, NumbersPorts) {
  EXPECT_EQ(service_id(PortSpace::kTcp, 7174), 0x0000000001061c06u);
  EXPECT_EQ(port_of(0x0000000001061c06), 7174);
  EXPECT_EQ(space_of(0x0000000001061c06), static_cast<uint64_t>(PortSpace::kTcp));
  EXPECT_EQ(space_of(0x02ff000001061c06), 0x02ff00000106u);
}

}  // namespace
}  // namespace verbatim::roce::cm
