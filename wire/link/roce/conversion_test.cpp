// SPDX-License-Identifier: MIT
#include "wire/link/roce/conversion.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbatim::wire {
namespace {

using roce::name_of;

Segment request(Operation operation, uint32_t length, uint32_t flags) {
  Segment segment;
  segment.operation = operation;
  segment.flags = static_cast<uint16_t>(flags);
  segment.dest_qpn = 0x123456;
  segment.src_qpn = 0x654321;
  segment.psn = 0xfffffe;
  segment.path_mtu = 1024;
  segment.length = segment.total_length = length;
  segment.packets = length == 0 ? 1 : (length - 1) / 1024 + 1;
  segment.immediate = 0x55667788;
  segment.remote_address = 0x0102030405060708;
  segment.rkey = 0x11223344;
  segment.swap_or_add = 0xa1a2a3a4a5a6a7a8;
  segment.compare = 0xb1b2b3b4b5b6b7b8;
  segment.qkey = 0x99887766;
  segment.msn = 77;
  segment.srqn = 0xabcdef;
  return segment;
}

constexpr uint32_t kWhole = kFirst | kLast;

/// "name psn offset+bytes [A][S]" of each packet.
std::vector<std::string> told(const Segment& segment) {
  std::vector<std::string> lines;
  PacketsOf packets(segment);
  while (packets.next()) {
    const roce::Bth& bth = packets.headers().bth;
    EXPECT_EQ(bth.destination, segment.dest_qpn);
    EXPECT_EQ(bth.pkey, 0xffff);
    lines.push_back(name_of(bth.opcode) + " " + std::to_string(bth.psn) + " " +
                    std::to_string(packets.offset()) + "+" + std::to_string(packets.bytes()) +
                    (bth.ack_request ? " A" : "") + (bth.solicited ? " S" : ""));
  }
  EXPECT_EQ(lines.size(), packets.count());
  return lines;
}

using Lines = std::vector<std::string>;

TEST(PacketsOf, CutsAMessage) {
  EXPECT_EQ(told(request(Operation::kSend, 3000, kWhole | kAckRequest | kSolicited)),
            (Lines{"RC SEND FIRST 16777214 0+1024", "RC SEND MIDDLE 16777215 1024+1024",
                   "RC SEND LAST 0 2048+952 A S"}));
  EXPECT_EQ(
      told(request(Operation::kWrite, 2048, kWhole | kImmediate)),
      (Lines{"RC RDMA WRITE FIRST 16777214 0+1024", "RC RDMA WRITE LAST WITH IMMEDIATE 16777215 1024+1024"}));
  EXPECT_EQ(told(request(Operation::kSend, 0, kWhole | kInvalidate)),
            (Lines{"RC SEND ONLY WITH INVALIDATE 16777214 0+0"}));
  EXPECT_EQ(told(request(Operation::kWrite, 1024, kWhole)), (Lines{"RC RDMA WRITE ONLY 16777214 0+1024"}));
}

TEST(PacketsOf, CutsPartsOfMessages) {
  EXPECT_EQ(told(request(Operation::kSend, 2048, kFirst)),
            (Lines{"RC SEND FIRST 16777214 0+1024", "RC SEND MIDDLE 16777215 1024+1024"}));
  EXPECT_EQ(told(request(Operation::kWrite, 1024, kAckRequest)),
            (Lines{"RC RDMA WRITE MIDDLE 16777214 0+1024 A"}));
  EXPECT_EQ(told(request(Operation::kReadResponse, 1500, kLast)),
            (Lines{"RC RDMA READ RESPONSE MIDDLE 16777214 0+1024",
                   "RC RDMA READ RESPONSE LAST 16777215 1024+476"}));
}

TEST(PacketsOf, IsOnePacketWithoutPayload) {
  Segment read = request(Operation::kReadRequest, 0, kWhole | kAckRequest);
  read.total_length = 5000;
  read.packets = 5;
  EXPECT_EQ(told(read), (Lines{"RC RDMA READ REQUEST 16777214 0+0 A"}));
  EXPECT_EQ(told(request(Operation::kAck, 0, kWhole)), (Lines{"RC ACKNOWLEDGE 16777214 0+0"}));
  Segment datagram = request(Operation::kSend, 4096, kWhole);
  datagram.transport = Transport::kUd;
  EXPECT_EQ(told(datagram), (Lines{"UD SEND ONLY 16777214 0+4096"}));
}

TEST(PacketsOf, RefusesWhatHasNoForm) {
  Segment segment = request(Operation::kSend, 100, kWhole);
  segment.transport = Transport::kDc;
  EXPECT_EQ(PacketsOf(segment).obstacle(), nullptr);
  segment.operation = Operation::kDisconnect;
  segment.length = 0;
  EXPECT_EQ(PacketsOf(segment).obstacle(), nullptr);
  segment.transport = Transport::kRc;
  EXPECT_STREQ(PacketsOf(segment).obstacle(), "engines on one host say this to each other");
  EXPECT_FALSE(PacketsOf(segment).next());
  for (const uint32_t flag : {kPlaced, kAcknowledges})
    EXPECT_NE(PacketsOf(request(Operation::kWrite, 100, kWhole | flag)).obstacle(), nullptr);
  segment = request(Operation::kAck, 0, kWhole);
  for (const uint8_t syndrome : {kNakSourceFault, kNakCannotPull, kNakNoQueue}) {
    segment.syndrome = syndrome;
    EXPECT_NE(PacketsOf(segment).obstacle(), nullptr);
  }
  segment.syndrome = kNakRemoteOperational;
  EXPECT_EQ(PacketsOf(segment).obstacle(), nullptr);
}

/// The segments that come out at the other end.
std::vector<Segment> over_the_wire(const Segment& segment) {
  std::vector<Segment> arrived;
  std::vector<uint8_t> payload(segment.length + 16), datagram(roce::kPacketBytesMax + 16);
  const roce::PacketWriter writer{roce::Envelope{}};
  PacketsOf packets(segment);
  while (packets.next()) {
    const size_t bytes =
        writer.write(datagram, packets.headers(),
                     std::span(payload).subspan(packets.offset(), packets.bytes() + packets.filler_bytes()));
    const auto packet = roce::Packet::parse(std::span(datagram).first(bytes));
    EXPECT_TRUE(packet.ok()) << packet.reason();
    arrived.emplace_back();
    EXPECT_TRUE(segment_of(*packet, arrived.back()));
  }
  return arrived;
}

TEST(SegmentOf, GivesBackWhatWasSent) {
  const auto expect_request = [](Operation operation, Transport transport, uint32_t flags) {
    Segment sent = request(operation, 2000, flags | kFirst | kLast);
    sent.transport = transport;
    if (transport == Transport::kUd) sent.path_mtu = 4096;
    const auto arrived = over_the_wire(sent);
    ASSERT_EQ(arrived.size(), transport == Transport::kUd ? 1u : 2u);
    uint32_t bytes = 0;
    for (const Segment& got : arrived) {
      EXPECT_EQ(got.operation, operation);
      EXPECT_EQ(got.transport, transport);
      EXPECT_EQ(got.dest_qpn, sent.dest_qpn);
      EXPECT_EQ(got.src_qpn, transport == Transport::kUd ? sent.src_qpn : kUnknownQpn);
      EXPECT_EQ(got.psn, psn_add(sent.psn, static_cast<uint32_t>(&got - arrived.data())));
      EXPECT_EQ(got.base_psn, got.psn);
      EXPECT_EQ(got.packets, 1u);
      EXPECT_EQ(got.has(kFirst), &got == &arrived.front());
      EXPECT_EQ(got.has(kLast), &got == &arrived.back());
      bytes += got.length;
    }
    EXPECT_EQ(bytes, 2000u);
    EXPECT_EQ(arrived.back().flags & ~kFirst, (flags | kLast));
    EXPECT_EQ(arrived.back().immediate, flags & (kImmediate | kInvalidate) ? sent.immediate : 0);
    if (transport == Transport::kUd) {
      EXPECT_EQ(arrived[0].qkey, sent.qkey);
    }
    for (const Segment& got : arrived)
      if (transport == Transport::kXrc) {
        EXPECT_EQ(got.srqn, sent.srqn) << "every packet of a request names it";
      }
    if (operation != Operation::kWrite) return;
    EXPECT_EQ(arrived[0].remote_address, sent.remote_address);
    EXPECT_EQ(arrived[0].rkey, sent.rkey);
    EXPECT_EQ(arrived[0].total_length, 2000u);
  };
  for (const Transport transport : {Transport::kRc, Transport::kUc, Transport::kXrc})
    for (const uint32_t flags : {0u, uint32_t{kImmediate | kSolicited}, uint32_t{kAckRequest}}) {
      expect_request(Operation::kSend, transport, flags);
      expect_request(Operation::kWrite, transport, flags);
    }
  expect_request(Operation::kSend, Transport::kRc, kInvalidate);
  expect_request(Operation::kSend, Transport::kUd, kImmediate);
}

TEST(SegmentOf, GivesBackReadsAndAtomics) {
  Segment read = request(Operation::kReadRequest, 0, kWhole);
  read.total_length = 123456;
  const Segment got = over_the_wire(read).at(0);
  EXPECT_EQ(got.operation, Operation::kReadRequest);
  EXPECT_EQ(got.remote_address, read.remote_address);
  EXPECT_EQ(got.rkey, read.rkey);
  EXPECT_EQ(got.total_length, 123456u);
  EXPECT_EQ(got.length, 0u);
  for (const Operation operation : {Operation::kCompareSwap, Operation::kFetchAdd}) {
    const Segment sent = request(operation, 0, kWhole);
    const Segment atomic = over_the_wire(sent).at(0);
    EXPECT_EQ(atomic.operation, operation);
    EXPECT_EQ(atomic.remote_address, sent.remote_address);
    EXPECT_EQ(atomic.rkey, sent.rkey);
    EXPECT_EQ(atomic.swap_or_add, sent.swap_or_add);
    EXPECT_EQ(atomic.compare, sent.compare);
    EXPECT_EQ(atomic.total_length, 8u);
  }
}

TEST(SegmentOf, GivesBackDynamicConnections) {
  for (const Operation operation : {Operation::kSend, Operation::kFetchAdd, Operation::kDisconnect}) {
    Segment sent = request(operation, operation == Operation::kSend ? 100 : 0, kWhole | kAckRequest);
    sent.transport = Transport::kDc;
    sent.access_key = 0xc1c2c3c4c5c6c7c8;
    sent.connection = 0xd1d2d3d4;
    sent.base_psn = 0xfffff0;
    const Segment got = over_the_wire(sent).at(0);
    EXPECT_EQ(got.operation, operation);
    EXPECT_EQ(got.transport, Transport::kDc);
    EXPECT_EQ(got.access_key, sent.access_key);
    EXPECT_EQ(got.connection, sent.connection);
    EXPECT_EQ(got.src_qpn, sent.src_qpn);
    EXPECT_EQ(got.psn, sent.psn);
    EXPECT_EQ(got.base_psn, sent.base_psn);
    EXPECT_TRUE(got.has(kOpens));
  }
  Segment ack = request(Operation::kAck, 0, kWhole);
  ack.transport = Transport::kDc;
  ack.syndrome = kNakRemoteAccess;
  ack.access_key = 0;
  ack.connection = 7;
  const Segment got = over_the_wire(ack).at(0);
  EXPECT_EQ(got.connection, 7u);
  EXPECT_EQ(got.syndrome, kNakRemoteAccess);
  EXPECT_FALSE(got.has(kOpens));
}

TEST(SegmentOf, GivesBackPlacements) {
  for (const Transport transport : {Transport::kRc, Transport::kXrc}) {
    Segment flush = request(Operation::kFlush, 0, kWhole | kAckRequest);
    flush.transport = transport;
    flush.total_length = 0x12345678;
    for (const uint32_t wanted :
         {kFlushVisible, kFlushLasting, kFlushVisible | kFlushLasting | kFlushRegion}) {
      flush.immediate = wanted;
      const Segment got = over_the_wire(flush).at(0);
      EXPECT_EQ(got.operation, Operation::kFlush);
      EXPECT_EQ(got.transport, transport);
      EXPECT_EQ(got.immediate, wanted);
      EXPECT_EQ(got.remote_address, flush.remote_address);
      EXPECT_EQ(got.rkey, flush.rkey);
      EXPECT_EQ(got.total_length, 0x12345678u);
      EXPECT_EQ(got.length, 0u);
    }
    Segment write = request(Operation::kAtomicWrite, 8, kWhole | kAckRequest);
    write.transport = transport;
    const Segment got = over_the_wire(write).at(0);
    EXPECT_EQ(got.operation, Operation::kAtomicWrite);
    EXPECT_EQ(got.remote_address, write.remote_address);
    EXPECT_EQ(got.total_length, 8u);
    EXPECT_EQ(got.length, 8u);
    if (transport == Transport::kXrc) {
      EXPECT_EQ(got.srqn, write.srqn);
    }
  }
}

TEST(SegmentOf, GivesBackAnswers) {
  for (const uint8_t syndrome : {kAckOk, kNakSequence, kNakInvalidRequest, kNakRemoteAccess,
                                 kNakRemoteOperational, static_cast<Syndrome>(kRnrNak | 14)}) {
    Segment ack = request(Operation::kAck, 0, kWhole);
    ack.syndrome = syndrome;
    const Segment got = over_the_wire(ack).at(0);
    EXPECT_EQ(got.operation, Operation::kAck);
    EXPECT_EQ(got.syndrome, syndrome);
    EXPECT_EQ(got.msn, 77u);
    EXPECT_EQ(got.psn, ack.psn);
  }
  const Segment atomic = over_the_wire(request(Operation::kAtomicResponse, 0, kWhole)).at(0);
  EXPECT_EQ(atomic.operation, Operation::kAtomicResponse);
  EXPECT_EQ(atomic.swap_or_add, 0xa1a2a3a4a5a6a7a8);
  const auto read = over_the_wire(request(Operation::kReadResponse, 2500, kWhole));
  ASSERT_EQ(read.size(), 3u);
  for (const Segment& got : read) EXPECT_EQ(got.syndrome, kAckOk);
  EXPECT_EQ(read[1].length, 1024u);
  EXPECT_EQ(read[2].length, 452u);
  const Segment congestion = over_the_wire(request(Operation::kCongestion, 0, kWhole)).at(0);
  EXPECT_EQ(congestion.operation, Operation::kCongestion);
  EXPECT_EQ(congestion.length, 0u);
}

TEST(SegmentOf, KnowsNothingElse) {
  const auto known = [](roce::Transport transport, roce::Operation operation, roce::Aeth aeth) {
    roce::Packet packet;
    packet.headers.bth.opcode = roce::opcode(transport, operation);
    packet.headers.aeth = aeth;
    Segment segment;
    return segment_of(packet, segment);
  };
  const roce::Aeth ack = roce::Aeth::ack(1);
  EXPECT_TRUE(known(roce::Transport::kRc, roce::Operation::kAcknowledge, ack));
  EXPECT_TRUE(known(roce::Transport::kXrc, roce::Operation::kAcknowledge, ack));
  EXPECT_FALSE(known(roce::Transport::kRd, roce::Operation::kAcknowledge, ack));
  for (uint8_t code = 4; code < 32; code++)
    EXPECT_FALSE(known(roce::Transport::kRc, roce::Operation::kAcknowledge, {roce::AckKind::kNak, code, 1}));
  EXPECT_FALSE(known(roce::Transport::kRc, roce::Operation::kAcknowledge, {roce::AckKind::kReserved, 0, 1}));
}

}  // namespace
}  // namespace verbatim::wire
