// SPDX-License-Identifier: MIT
// Dynamic connections on an Ethernet wire, packet by packet.
#include "testing/simulation/script.h"

namespace verbatim::simulation {
namespace {

using engine::Opcode;
using engine::QpType;
using engine::Status;
using wire::Operation;
using wire::Segment;

constexpr uint32_t kOnly = Script::kOnly;
constexpr uint64_t kLateNs = 5'000'000'000;  ///< more than any packet is on its way

/// Packet `n` of that connection of the peer, which says that all before `opening` was answered.
Segment packet_of(const Script& s, uint32_t connection, uint32_t n, uint32_t opening = 0) {
  Segment packet = s.packet(Operation::kSend, n, kOnly | wire::kAckRequest | wire::kOpens);
  packet.src_qpn = Script::kPeerQpn;
  packet.connection = connection;
  packet.access_key = Script::kAccessKey;
  packet.base_psn = wire::psn_add(Script::kFirstPsn, opening);
  return packet;
}

Segment end_of(const Script& s, uint32_t connection, uint32_t n) {
  Segment packet = packet_of(s, connection, n, n);
  packet.operation = Operation::kDisconnect;
  return packet;
}

TEST(WireDcTarget, AnswersWhereARequestCameFrom) {
  Script s(QpType::kDct);
  s.post_receive(100);
  s.rx(packet_of(s, 7, 0), 10);
  EXPECT_EQ(10u, s.expect_receive().bytes);
  const Segment ack = s.expect(Operation::kAck, 0);
  EXPECT_EQ(wire::Transport::kDc, ack.transport);
  EXPECT_EQ(7u, ack.connection);
  EXPECT_EQ(address_of(0), ack.source_gid);
}

TEST(WireDcTarget, AsksForAnOpeningPacketThatWasLost) {
  Script s(QpType::kDct);
  s.post_receive(100);
  s.post_receive(100);
  s.rx(packet_of(s, 7, 1), 20);
  s.expect_no_receive();
  s.expect_ack(0, wire::kNakSequence);
  s.rx(packet_of(s, 7, 0), 10);
  s.rx(packet_of(s, 7, 1), 20);
  EXPECT_EQ(10u, s.expect_receive().bytes);
  EXPECT_EQ(20u, s.expect_receive().bytes);
}

TEST(WireDcTarget, TakesNothingTwice) {
  Script s(QpType::kDct);
  for (int i = 0; i < 4; i++) s.post_receive(100);
  s.rx(packet_of(s, 7, 0), 10);
  s.rx(packet_of(s, 7, 0), 10);
  s.expect_receive();
  s.expect_ack(0);
  s.expect_ack(0);
  s.rx(end_of(s, 7, 1));
  s.rx(packet_of(s, 7, 0), 10);  // doubled, and late
  s.rx(packet_of(s, 8, 1, 1), 10);
  s.expect_receive();
  s.expect_ack(1);
  s.rx(packet_of(s, 7, 0), 10);
  s.expect_no_receive();
  s.expect_nothing();
}

TEST(WireDcTarget, KnowsTheNextProcessByTime) {
  Script s(QpType::kDct);
  s.post_receive(100);
  s.post_receive(100);
  s.rx(packet_of(s, 1000, 5, 5), 10);
  s.expect_receive();
  s.rx(packet_of(s, 3, 0), 20);
  s.expect_no_receive();
  s.pass(kLateNs);
  s.rx(packet_of(s, 3, 0), 20);
  EXPECT_EQ(20u, s.expect_receive().bytes);
}

TEST(WireDcTarget, TellsHostsApart) {
  Script s(QpType::kDct);
  s.post_receive(100);
  s.post_receive(100);
  s.rx(packet_of(s, 7, 0), 10);
  s.expect_ack(0);
  Segment other = packet_of(s, 3, 9, 9);
  other.source_gid = address_of(2);
  s.rx(other, 20);
  s.expect_receive();
  EXPECT_EQ(20u, s.expect_receive().bytes);
  EXPECT_EQ(address_of(2), s.last_sent().dest_gid);
}

TEST(WireDcTarget, RefusesAWrongAccessKeyEachTime) {
  Script s(QpType::kDct);
  s.post_receive(100);
  Segment wrong = packet_of(s, 7, 0);
  wrong.access_key++;
  for (int i = 0; i < 2; i++) {
    s.rx(wrong, 10);
    s.expect_ack(0, wire::kNakRemoteAccess);
  }
  s.expect_no_receive();
  s.rx(packet_of(s, 8, 0), 10);
  EXPECT_EQ(10u, s.expect_receive().bytes);
}

TEST(WireDcTarget, AWrongAccessKeyChangesNothing) {
  Script s(QpType::kDct);
  for (int i = 0; i < 3; i++) s.post_receive(100);
  s.rx(packet_of(s, 7, 0), 10);
  s.expect_receive();
  s.expect_ack(0);
  Segment later = packet_of(s, 9, 5, 4);
  later.access_key++;
  s.rx(later, 10);
  s.expect_ack(4, wire::kNakRemoteAccess);
  s.rx(packet_of(s, 7, 1), 20);
  EXPECT_EQ(20u, s.expect_receive().bytes);
  s.expect_ack(1);
  Segment end = end_of(s, 7, 2);
  end.access_key++;
  s.rx(end);
  s.rx(packet_of(s, 7, 2), 30);
  EXPECT_EQ(30u, s.expect_receive().bytes);
}

engine::SendWork work_of(const Script& s, uint32_t target, uint16_t stream = 0) {
  engine::SendWork work = s.work(Opcode::kSend, 10);
  work.destination.gid = address_of(1);
  work.destination.qpn = target;
  work.destination.hop_limit = 9;
  work.destination.stream = stream;
  work.destination.access_key = Script::kAccessKey;
  return work;
}

Segment answer_to(const Script& s, const Segment& request, uint8_t syndrome = wire::kAckOk) {
  Segment answer = s.packet(Operation::kAck, 0, kOnly);
  answer.psn = request.psn;
  answer.syndrome = syndrome;
  answer.src_qpn = request.dest_qpn;
  answer.connection = request.connection;
  return answer;
}

TEST(WireDcInitiator, BelievesTheTargetOfItsConnectionAlone) {
  Script s(QpType::kDci);
  s.post(work_of(s, Script::kPeerQpn));
  const Segment sent = s.expect(Operation::kSend, 0);
  EXPECT_EQ(sent.psn, sent.base_psn);
  EXPECT_EQ(Script::kAccessKey, sent.access_key);
  EXPECT_EQ(9, sent.hop_limit);
  Segment former = answer_to(s, sent), other = answer_to(s, sent);
  former.connection--;
  other.src_qpn++;
  s.rx(former);
  s.rx(other);
  s.expect_no_completion();
  s.rx(answer_to(s, sent));
  s.expect_completion(Status::kSuccess);
}

TEST(WireDcInitiator, SaysHowFarItWasAnswered) {
  Script s(QpType::kDci);
  for (int i = 0; i < 3; i++) s.post(work_of(s, Script::kPeerQpn));
  const Segment first = s.expect(Operation::kSend, 0);
  EXPECT_EQ(first.psn, s.expect(Operation::kSend, 1).base_psn);
  s.forget_sent();
  s.rx(answer_to(s, first));
  s.expect_completion(Status::kSuccess);
  s.pass(Script::kTimeoutNs * 2);
  const Segment again = s.expect(Operation::kSend, 1);
  EXPECT_EQ(again.psn, again.base_psn);
  EXPECT_EQ(first.connection, again.connection);
}

TEST(WireDcInitiator, EndsAConnectionBeforeTheNext) {
  Script s(QpType::kDci);
  s.post(work_of(s, Script::kPeerQpn));
  s.post(work_of(s, Script::kPeerQpn + 1));
  const Segment first = s.expect(Operation::kSend, 0);
  s.expect_nothing();
  s.rx(answer_to(s, first));
  s.expect_completion(Status::kSuccess);
  const Segment end = s.expect(Operation::kDisconnect, 1);
  EXPECT_EQ(first.connection, end.connection);
  EXPECT_EQ(address_of(1), end.dest_gid);
  const Segment second = s.last_sent();
  EXPECT_EQ(Script::kPeerQpn + 1, second.dest_qpn);
  EXPECT_NE(first.connection, second.connection);
  s.rx(answer_to(s, second));
  s.expect_completion(Status::kSuccess);
}

TEST(WireDcInitiator, GoesOnWithOtherStreamsAfterAFailure) {
  Script s(QpType::kDci);
  s.post(work_of(s, Script::kPeerQpn, 1));
  s.post(work_of(s, Script::kPeerQpn, 2));
  const Segment first = s.expect(Operation::kSend, 0);
  s.expect(Operation::kSend, 1);
  s.rx(answer_to(s, first, wire::kNakRemoteOperational));
  s.expect_completion(Status::kRemoteOperation);
  const Segment again = s.last_sent();
  EXPECT_EQ(Operation::kSend, again.operation);
  EXPECT_NE(first.connection, again.connection);
  EXPECT_EQ(again.psn, again.base_psn);
  s.rx(answer_to(s, again));
  s.expect_completion(Status::kSuccess);
}

}  // namespace
}  // namespace verbatim::simulation
