// SPDX-License-Identifier: MIT
// Packets that a Linux rxe device sent (extract.py took them out of captures): each is understood, its ICRC
// is right, and what it was parsed into is written again as the same bytes.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "testing/golden.h"
#include "wire/format/cm.h"
#include "wire/format/cm_service.h"
#include "wire/format/datagram.h"
#include "wire/format/packet.h"

namespace verbatim::roce {
namespace {

using verbatim::testing::Golden;

const std::vector<Golden>& all_golden() {
  static const std::vector<Golden> all = verbatim::testing::read_golden(VERBATIM_GOLDEN);
  return all;
}

/// The packets of a file, as values.
std::vector<Packet> packets_of(const std::string& name) {
  std::vector<Packet> packets;
  for (const Golden& golden : all_golden())
    if (golden.where.starts_with(name + ".hex:"))
      packets.push_back(*Packet::parse(Datagram::parse(golden.bytes)->payload));
  return packets;
}

/// The management datagrams of a file.
std::vector<cm::Message> messages_of(const std::string& name) {
  std::vector<cm::Message> messages;
  for (const Packet& packet : packets_of(name))
    if (packet.headers.bth.destination == kGeneralServicesQpn)
      messages.push_back(*cm::Message::parse(packet.payload));
  return messages;
}

template <class T>
T only(const std::vector<cm::Message>& messages) {
  for (const cm::Message& message : messages)
    if (const T* body = std::get_if<T>(&message.body)) return *body;
  ADD_FAILURE() << "no such message";
  return {};
}

TEST(GoldenPackets, AreUnderstoodAndWrittenAlike) {
  ASSERT_GE(all_golden().size(), 150u);
  for (const Golden& golden : all_golden()) {
    SCOPED_TRACE(golden.where);
    const auto datagram = Datagram::parse(golden.bytes);
    ASSERT_TRUE(datagram.ok()) << datagram.reason();
    const auto packet = Packet::parse(datagram->payload);
    ASSERT_TRUE(packet.ok()) << packet.reason();

    std::vector<uint8_t> again(golden.bytes.size(), 0xa5);
    const size_t header_bytes = datagram->emit_headers(again);
    const PacketWriter writer(datagram->envelope);
    const size_t bytes =
        writer.write(std::span(again).subspan(header_bytes), packet->headers, packet->payload);
    EXPECT_EQ(header_bytes + bytes, golden.bytes.size());
    EXPECT_EQ(verbatim::testing::to_hex(again), verbatim::testing::to_hex(golden.bytes));
  }
}

TEST(GoldenPackets, HaveTheRightIcrc) {
  for (const Golden& golden : all_golden()) {
    SCOPED_TRACE(golden.where);
    const auto datagram = Datagram::parse(golden.bytes);
    EXPECT_TRUE(check_icrc(datagram->envelope, datagram->payload, true).right);
    // A UDP socket does not see the identification.
    Envelope seen = datagram->envelope;
    seen.identification = 0;
    const IcrcCheck check = check_icrc(seen, datagram->payload, false);
    EXPECT_TRUE(check.right);
    EXPECT_EQ(check.identification, datagram->envelope.identification);
    std::vector<uint8_t> damaged(datagram->payload.begin(), datagram->payload.end());
    damaged[damaged.size() / 2] ^= 0x10;
    EXPECT_FALSE(check_icrc(datagram->envelope, damaged, true).right);
  }
}

TEST(GoldenPackets, AreOfMostOpcodes) {
  std::set<std::string> names;
  for (const Golden& golden : all_golden())
    names.insert(name_of(Packet::parse(Datagram::parse(golden.bytes)->payload)->headers.bth.opcode));
  EXPECT_GE(names.size(), 30u) << ::testing::PrintToString(names);
}

TEST(GoldenMessages, AreUnderstoodAndWrittenAlike) {
  std::map<std::string, int> kinds;
  for (const Golden& golden : all_golden()) {
    SCOPED_TRACE(golden.where);
    const auto packet = Packet::parse(Datagram::parse(golden.bytes)->payload);
    if (packet->headers.bth.destination != kGeneralServicesQpn) continue;
    EXPECT_EQ(packet->headers.deth.qkey, kGeneralServicesQkey);
    const auto message = cm::Message::parse(packet->payload);
    ASSERT_TRUE(message.ok()) << message.reason();
    kinds[cm::name_of(message->body)]++;
    std::vector<uint8_t> again(kMadBytes, 0xa5);
    message->emit(again);
    EXPECT_EQ(verbatim::testing::to_hex(again), verbatim::testing::to_hex(packet->payload));
    if (const auto* req = std::get_if<cm::Req>(&message->body)) {
      const auto header = cm::ServiceHeader::parse(req->private_data);
      ASSERT_TRUE(header.ok()) << header.reason();
      std::array<uint8_t, cm::ServiceHeader::kBytes> bytes;
      header->emit(bytes);
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), req->private_data.begin()));
    }
  }
  for (const char* kind : {"REQ", "MRA", "REP", "RTU", "REJ", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"})
    EXPECT_GE(kinds[kind], 1) << kind;
}

TEST(GoldenPackets, AcknowledgeInAllWays) {
  std::set<std::pair<AckKind, int>> said;
  for (const Golden& golden : all_golden()) {
    const Packet packet = *Packet::parse(Datagram::parse(golden.bytes)->payload);
    if (!packet.headers.has(kAeth)) continue;
    const Aeth& aeth = packet.headers.aeth;
    said.insert({aeth.kind, aeth.kind == AckKind::kNak ? aeth.value : 0});
  }
  const auto nak = [](NakCode code) { return std::pair(AckKind::kNak, static_cast<int>(code)); };
  EXPECT_TRUE(said.contains({AckKind::kAck, 0}));
  EXPECT_TRUE(said.contains({AckKind::kRnrNak, 0}));
  EXPECT_TRUE(said.contains(nak(NakCode::kSequenceError)));
  EXPECT_TRUE(said.contains(nak(NakCode::kRemoteAccess)));
  EXPECT_TRUE(said.contains(nak(NakCode::kRemoteOperational)));
}

TEST(GoldenMessages, MakeAConnection) {
  const auto messages = messages_of("rping");
  const auto req = only<cm::Req>(messages);
  EXPECT_EQ(req.service_id, cm::service_id(cm::PortSpace::kTcp, 7174));
  EXPECT_EQ(req.transport_service, cm::TransportService::kRc);
  EXPECT_EQ(req.pkey, kDefaultPkey);
  EXPECT_EQ(req.path_mtu, 5);
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.rnr_retry_count, 7);
  EXPECT_EQ(req.responder_resources, 1);
  EXPECT_EQ(req.initiator_depth, 1);
  EXPECT_EQ(req.primary.local_lid, 0xffff);
  EXPECT_EQ(req.primary.hop_limit, 64);
  EXPECT_TRUE(req.primary.local_gid.is_ipv4_mapped());
  EXPECT_EQ(req.alternate, cm::Path{});
  const auto header = cm::ServiceHeader::parse(req.private_data);
  EXPECT_FALSE(header->ipv6);
  EXPECT_EQ(header->source, req.primary.local_gid);
  EXPECT_EQ(header->destination, req.primary.remote_gid);

  const auto rep = only<cm::Rep>(messages);
  EXPECT_EQ(rep.remote_comm_id, req.local_comm_id);
  EXPECT_EQ(rep.rnr_retry_count, 7);
  const auto rtu = only<cm::Rtu>(messages);
  EXPECT_EQ(rtu.local_comm_id, req.local_comm_id);
  EXPECT_EQ(rtu.remote_comm_id, rep.local_comm_id);
  const auto dreq = only<cm::Dreq>(messages);
  const auto drep = only<cm::Drep>(messages);
  EXPECT_EQ(drep.remote_comm_id, dreq.local_comm_id);
  EXPECT_TRUE(dreq.remote_qpn == req.local_qpn || dreq.remote_qpn == rep.local_qpn);
  // The first packet of data has the PSN that the other side asked for.
  for (const Packet& packet : packets_of("rping"))
    if (packet.headers.bth.opcode == opcode(Transport::kRc, Operation::kSendOnly)) {
      EXPECT_TRUE(packet.headers.bth.psn == req.starting_psn || packet.headers.bth.psn == rep.starting_psn);
      break;
    }
}

TEST(GoldenMessages, CarryIpv6Addresses) {
  const auto req = only<cm::Req>(messages_of("rping_v6"));
  const auto header = cm::ServiceHeader::parse(req.private_data);
  EXPECT_TRUE(header->ipv6);
  EXPECT_EQ(header->destination, req.primary.remote_gid);
  EXPECT_FALSE(header->destination.is_ipv4_mapped());
}

// "reject" and "reject_ud" are of a port where nobody listens.
TEST(GoldenMessages, RejectAndResolve) {
  EXPECT_EQ(only<cm::Rej>(messages_of("reject")).reason, cm::RejectReason::kInvalidServiceId);
  const auto refusal = messages_of("refusal");
  EXPECT_EQ(only<cm::Rej>(refusal).reason, cm::RejectReason::kByConsumer);
  EXPECT_EQ(only<cm::Rej>(refusal).remote_comm_id, only<cm::Req>(refusal).local_comm_id);
  const auto slow = messages_of("slow_accept");
  EXPECT_EQ(only<cm::Mra>(slow).message, cm::Answered::kReq);
  EXPECT_EQ(only<cm::Mra>(slow).remote_comm_id, only<cm::Req>(slow).local_comm_id);
  const auto asked = only<cm::SidrReq>(messages_of("udaddy"));
  const auto told = only<cm::SidrRep>(messages_of("udaddy"));
  EXPECT_EQ(cm::space_of(asked.service_id), static_cast<uint64_t>(cm::PortSpace::kUdp));
  EXPECT_EQ(told.status, cm::SidrStatus::kValid);
  EXPECT_EQ(told.request_id, asked.request_id);
  EXPECT_EQ(told.qkey, 0x01234567u);
  EXPECT_NE(told.qpn, 0u);
  EXPECT_EQ(only<cm::SidrRep>(messages_of("reject_ud")).status, cm::SidrStatus::kUnsupportedService);
}

}  // namespace
}  // namespace verbatim::roce
