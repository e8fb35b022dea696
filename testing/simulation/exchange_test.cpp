// SPDX-License-Identifier: MIT
// What a queue pair answers on an Ethernet wire, packet by packet (IBA chapter 9).
#include "engine/traffic.h"
#include "testing/simulation/script.h"

namespace verbatim::simulation {
namespace {

using engine::Opcode;
using engine::QpType;
using engine::Status;
using wire::Operation;
using wire::Segment;

constexpr uint32_t kMtu = Script::kMtu;
constexpr uint32_t kOnly = Script::kOnly;

// --- the requester ---

TEST(WireRequester, CountsPacketsAcrossTheEndOfNumbers) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kSend, 5 * kMtu));
  const Segment sent = s.expect(Operation::kSend, 0);
  EXPECT_EQ(5u, sent.packets);
  EXPECT_TRUE(sent.has(wire::kAckRequest));
  EXPECT_EQ(kMtu, sent.path_mtu);
  s.post(s.work(Opcode::kSend, 10));
  s.expect(Operation::kSend, 5);
  s.expect_no_completion();
  s.rx(s.ack(4));
  s.expect_completion(Status::kSuccess);
  s.expect_no_completion();
  s.rx(s.ack(5));
  s.expect_completion(Status::kSuccess);
}

TEST(WireRequester, IgnoresAnswersToWhatItNeverSent) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kSend, 10));
  s.expect(Operation::kSend, 0);
  s.rx(s.ack(1));
  s.rx(s.ack(1, wire::kNakRemoteAccess));
  s.expect_no_completion();
  Segment other = s.ack(0);
  other.source_gid = address_of(2);
  s.rx(other);  // somebody else
  s.expect_no_completion();
  s.rx(s.ack(0));
  s.expect_completion(Status::kSuccess);
}

uint64_t of_other_partitions(Script& s) {
  return engine::count_of_port(*reinterpret_cast<const engine::Published*>(s.published()), 0,
                               engine::PortCount::kOtherPartition);
}

// An Ethernet port has the default P_Key alone, as a full member: limited ones may talk to it.
TEST(WireRequester, IgnoresAnswersOfOtherPartitions) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kSend, 10));
  s.expect(Operation::kSend, 0);
  Segment answer = s.ack(0);
  answer.pkey = 0x8001;
  s.rx(answer);
  s.expect_no_completion();
  EXPECT_EQ(1u, of_other_partitions(s));
  answer.pkey = 0x7fff;
  s.rx(answer);
  s.expect_completion(Status::kSuccess);
  EXPECT_EQ(1u, of_other_partitions(s));
}

TEST(WireRequester, GoesBackToWhatIsMissing) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kSend, 4 * kMtu));
  s.post(s.work(Opcode::kWrite, 10));
  s.expect(Operation::kSend, 0);
  s.expect(Operation::kWrite, 4);
  s.rx(s.ack(2, wire::kNakSequence));  // packets 0 and 1 are there
  const Segment again = s.expect(Operation::kSend, 2);
  EXPECT_EQ(2u, again.packets);
  EXPECT_FALSE(again.has(wire::kFirst));
  EXPECT_TRUE(again.has(wire::kLast));
  s.expect(Operation::kWrite, 4);
  s.expect_nothing();
  s.rx(s.ack(4));
  s.expect_completion(Status::kSuccess);
  s.expect_completion(Status::kSuccess);
}

TEST(WireRequester, TakesALateAcknowledgementOfWhatItIsSendingAgain) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kSend, 10));
  s.post(s.work(Opcode::kSend, 10));
  s.forget_sent();
  s.rx(s.ack(0, wire::kRnrNak | 12));  // goes back, and waits
  s.expect_nothing();
  s.rx(s.ack(1));  // of an earlier time, and overtaken
  s.expect_completion(Status::kSuccess);
  s.expect_completion(Status::kSuccess);
  s.pass(5'000'000);
  s.expect_nothing();
  s.post(s.work(Opcode::kSend, 10));
  s.expect(Operation::kSend, 2);
}

TEST(WireRequester, SilenceIsLossSoManyTimes) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kSend, 10));
  s.expect(Operation::kSend, 0);
  uint64_t patience_ns = Script::kTimeoutNs;  // up to four times that
  for (int retry = 0; retry < 2; retry++, patience_ns *= 2) {
    s.pass(patience_ns * 9 / 10);
    s.expect_nothing();
    s.pass(patience_ns * 2 / 10);
    s.expect(Operation::kSend, 0);
    s.expect_no_completion();
    s.pass(0);
  }
  s.pass(patience_ns * 12 / 10);
  s.expect_nothing();
  s.expect_completion(Status::kRetryExceeded);
  EXPECT_EQ(engine::QpState::kError, s.qp().state());
}

TEST(WireRequester, ProgressGivesNewTries) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kSend, 20 * kMtu));
  for (uint32_t n = 0; n < 8; n++) {
    s.pass(Script::kTimeoutNs * 9 / 5);
    s.rx(s.ack(n));
    s.expect_no_completion();
  }
  s.rx(s.ack(19));
  s.expect_completion(Status::kSuccess);
}

TEST(WireRequester, WaitsUntilTheReceiverIsReadySoManyTimes) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kSend, 10));
  s.expect(Operation::kSend, 0);
  s.rx(s.ack(0, wire::kRnrNak | 12));
  s.rx(s.ack(0, wire::kRnrNak | 12));  // the same, doubled on the way
  s.rx(s.ack(0, wire::kNakSequence));  // what the packets behind it caused
  s.expect_nothing();
  s.pass(500'000);
  s.expect_nothing();
  s.pass(2'000'000);
  s.expect(Operation::kSend, 0);
  s.rx(s.ack(0, wire::kRnrNak | 12));
  s.expect_completion(Status::kRnrRetryExceeded);
}

TEST(WireRequester, RefusalsEndTheRequestTheyName) {
  const std::pair<uint8_t, Status> kRefusals[] = {{wire::kNakInvalidRequest, Status::kRemoteInvalidRequest},
                                                  {wire::kNakRemoteAccess, Status::kRemoteAccess},
                                                  {wire::kNakRemoteOperational, Status::kRemoteOperation}};
  for (const auto& [syndrome, status] : kRefusals) {
    Script s(QpType::kRc);
    for (int i = 0; i < 3; i++) s.post(s.work(Opcode::kSend, 10));
    s.rx(s.ack(1, syndrome));
    s.expect_completion(Status::kSuccess);
    s.expect_completion(status);
    s.expect_completion(Status::kFlushed);
  }
}

TEST(WireRequester, ReadsWhatIsMissingAgain) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kRead, 4 * kMtu));
  EXPECT_EQ(4 * kMtu, s.expect(Operation::kReadRequest, 0).total_length);
  s.rx(s.packet(Operation::kReadResponse, 0, wire::kFirst), kMtu, 1);
  s.rx(s.packet(Operation::kReadResponse, 0, wire::kFirst), kMtu, 9);  // doubled: not written
  s.expect_nothing();
  s.rx(s.packet(Operation::kReadResponse, 2, 0), kMtu, 3);  // 1 is missing
  const Segment again = s.expect(Operation::kReadRequest, 1);
  EXPECT_EQ(3 * kMtu, again.total_length);
  EXPECT_EQ(0x5000u + kMtu, again.remote_address);
  s.rx(s.packet(Operation::kReadResponse, 3, wire::kLast), kMtu, 4);
  s.expect_nothing();  // it is asked for already
  s.rx(s.packet(Operation::kReadResponse, 1, wire::kFirst), kMtu, 2);
  s.rx(s.packet(Operation::kReadResponse, 2, 0), kMtu, 3);
  s.expect_no_completion();
  s.rx(s.packet(Operation::kReadResponse, 3, wire::kLast), kMtu, 4);
  s.expect_completion(Status::kSuccess);
  for (uint32_t i = 0; i < 4; i++) EXPECT_EQ(i + 1, s.memory()[i * kMtu]);
}

TEST(WireRequester, AcknowledgementBeyondAReadMeansThatItsResponseIsLost) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kRead, 10));
  s.post(s.work(Opcode::kSend, 10));
  s.forget_sent();
  s.rx(s.ack(1));
  s.expect_no_completion();
  s.expect(Operation::kReadRequest, 0);
  s.expect(Operation::kSend, 1);
  s.rx(s.ack(1));
  s.expect_nothing();  // once
  s.rx(s.packet(Operation::kReadResponse, 0, kOnly), 10);
  s.expect_completion(Status::kSuccess);
  s.expect_no_completion();
  s.rx(s.ack(1));
  s.expect_completion(Status::kSuccess);
}

TEST(WireRequester, AsksForLongReadsInPartsAndKeepsToThem) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kRead, 160 * kMtu));  // a part has 64 packets here, and two may be outstanding
  EXPECT_EQ(64 * kMtu, s.expect(Operation::kReadRequest, 0).total_length);
  EXPECT_EQ(64 * kMtu, s.expect(Operation::kReadRequest, 64).total_length);
  s.expect_nothing();
  s.rx(s.packet(Operation::kReadResponse, 0, wire::kFirst), kMtu);
  s.pass(Script::kTimeoutNs * 3 / 2);
  EXPECT_EQ(63 * kMtu, s.expect(Operation::kReadRequest, 1).total_length);
  EXPECT_EQ(64 * kMtu, s.expect(Operation::kReadRequest, 64).total_length);
  s.expect_nothing();
  for (uint32_t n = 1; n < 64; n++) s.rx(s.packet(Operation::kReadResponse, n, 0), kMtu);
  EXPECT_EQ(32 * kMtu, s.expect(Operation::kReadRequest, 128).total_length);
}

TEST(WireRequester, ResponsesOfTheWrongLengthAreAnError) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kRead, 2 * kMtu));
  s.rx(s.packet(Operation::kReadResponse, 0, wire::kFirst), kMtu - 4);
  s.expect_completion(Status::kBadResponse);
}

TEST(WireRequester, AtomicsAreAnsweredOnce) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kFetchAdd, 8));
  s.expect(Operation::kFetchAdd, 0);
  s.pass(Script::kTimeoutNs * 3 / 2);
  s.expect(Operation::kFetchAdd, 0);
  Segment answer = s.packet(Operation::kAtomicResponse, 0, kOnly);
  answer.swap_or_add = 42;
  s.rx(answer);
  s.expect_completion(Status::kSuccess);
  s.rx(answer);
  s.expect_no_completion();
  uint64_t original;
  std::memcpy(&original, s.memory(), sizeof original);
  EXPECT_EQ(42u, original);
}

TEST(WireRequester, KeepsToItsWindow) {
  Script s(QpType::kRc);
  constexpr uint32_t kMost = engine::Flight::kPacketsMax, kPart = 16;  // packets
  uint32_t packets = 0;
  const auto take = [&](uint32_t wanted) {
    while (packets < wanted && !HasFailure()) packets += s.expect(Operation::kWrite, packets).packets;
  };
  for (uint32_t message = 1; message <= kMost / 235; message++) {
    s.post(s.work(Opcode::kWrite, 60'000));
    take(message * 235);
    EXPECT_EQ(message * 235, packets);
    s.expect_nothing();
  }
  s.post(s.work(Opcode::kWrite, 60'000));
  take(kMost - kPart + 1);
  EXPECT_LE(packets, kMost);
  s.expect_nothing();  // another part does not fit
  s.rx(s.ack(31));
  packets += s.expect(Operation::kWrite, packets).packets;
  EXPECT_LE(packets, 32u + kMost);
}

TEST(WireRequester, CongestionHalvesTheWindow) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kSend, 10));
  s.expect(Operation::kSend, 0);
  s.rx(s.ack(0));
  const Segment notice = s.packet(Operation::kCongestion, 0, kOnly);
  for (int i = 0; i < 10; i++) {
    s.pass(60'000);
    s.rx(notice);
  }
  s.post(s.work(Opcode::kWrite, 60'000));
  uint32_t bytes = 0;
  while (bytes < 16 * 1024) {
    const Segment sent = s.expect(Operation::kWrite, 1 + bytes / kMtu);
    ASSERT_NE(Operation::kDisconnect, sent.operation);
    bytes += sent.length;
  }
  s.expect_nothing();
  EXPECT_LT(bytes, 40'000u);
  s.pass(1'000'000);
  s.rx(s.ack(16));
  EXPECT_GT(s.expect(Operation::kWrite, 1 + bytes / kMtu).length, 0u);
}

void set_timeout(Script& s, uint8_t code) {
  s.attributes.state = engine::QpState::kSqd;
  s.modify(engine::kQpState);
  s.attributes.timeout = code;
  s.modify(engine::kQpState | engine::kQpTimeout);
  s.attributes.state = engine::QpState::kRts;
  s.modify(engine::kQpState);
}

TEST(WireRequester, AsksWhatThePeerHasLongBeforeTheTimeout) {
  Script s(QpType::kRc);
  set_timeout(s, 14);  // 67 ms
  s.post(s.work(Opcode::kWrite, 4 * kMtu));
  EXPECT_EQ(4u, s.expect(Operation::kWrite, 0).packets);
  s.pass(1'500'000);
  const Segment again = s.expect(Operation::kWrite, 0);
  EXPECT_EQ(1u, again.packets);
  EXPECT_TRUE(again.has(wire::kAckRequest));
  s.expect_nothing();
  s.pass(1'000'000);
  s.expect_nothing();  // waits twice as long for the next time
  s.rx(s.ack(0));      // nothing else was there: the rest is sent again
  EXPECT_EQ(3u, s.expect(Operation::kWrite, 1).packets);
  s.rx(s.ack(3));
  s.expect_completion(Status::kSuccess);
  s.pass(100'000'000);
  s.expect_nothing();
}

TEST(WireRequester, ShortTimeoutsDoWithoutAsking) {
  Script s(QpType::kRc);
  s.post(s.work(Opcode::kWrite, 4 * kMtu));
  s.expect(Operation::kWrite, 0);
  s.pass(3'000'000);
  s.expect_nothing();
}

TEST(WireRequester, SmallMessagesOfAStreamWaitForCompany) {
  Script s(QpType::kRc);
  for (uint32_t n = 0; n < 4; n++) {
    s.post_alone(s.work(Opcode::kSend, 10));
    s.expect(Operation::kSend, n);
  }
  s.post_alone(s.work(Opcode::kSend, 10));
  s.post_alone(s.work(Opcode::kSend, 10));
  s.expect_nothing();
  s.pass(1'000);  // somebody looks for arrivals
  s.expect(Operation::kSend, 4);
  s.expect(Operation::kSend, 5);
  s.post_alone(s.work(Opcode::kSend, 10));
  s.expect_nothing();
  s.rx(s.ack(3));
  s.expect(Operation::kSend, 6);
}

// --- the responder ---

TEST(WireResponder, TakesMessagesPacketByPacket) {
  Script s(QpType::kRc);
  s.post_receive(1000);
  s.rx(s.packet(Operation::kSend, 0, wire::kFirst), kMtu, 1);
  s.expect_nothing();
  s.rx(s.packet(Operation::kSend, 1, wire::kAckRequest), kMtu, 2);
  s.expect_ack(1);
  s.rx(s.packet(Operation::kSend, 2, wire::kLast | wire::kAckRequest), 10, 3);
  s.expect_ack(2);
  EXPECT_EQ(2 * kMtu + 10, s.expect_receive().bytes);
  for (uint32_t i = 0; i < 3; i++) EXPECT_EQ(i + 1, s.memory()[32 * 1024 + i * kMtu]);
}

TEST(WireResponder, DropsRequestsOfOtherPartitions) {
  Script s(QpType::kRc);
  s.post_receive(100);
  Segment request = s.packet(Operation::kSend, 0, kOnly | wire::kAckRequest);
  for (const uint16_t other : {0x8001, 0x0001, 0x0000, 0x8000}) {
    request.pkey = other;
    s.rx(request, 10);
    s.expect_nothing();
    s.expect_no_receive();
  }
  EXPECT_EQ(4u, of_other_partitions(s));
  request.pkey = 0x7fff;
  s.rx(request, 10);
  s.expect_ack(0);
  s.expect_receive();
}

TEST(WireResponder, AcknowledgesWhatComesAgainAndDoesNotTakeIt) {
  Script s(QpType::kRc);
  s.post_receive(100);
  s.post_receive(100);
  s.rx(s.packet(Operation::kSend, 0, kOnly | wire::kAckRequest), 10);
  s.rx(s.packet(Operation::kSend, 1, kOnly | wire::kAckRequest), 10);
  s.expect_ack(0);
  s.expect_ack(1);
  s.expect_receive();
  s.expect_receive();
  s.rx(s.packet(Operation::kSend, 0, kOnly | wire::kAckRequest), 10);
  s.expect_ack(1);  // the newest
  s.expect_no_receive();
}

TEST(WireResponder, AcknowledgesBeforeTheProgramAnswers) {
  Script s(QpType::kRc);
  s.post_receive(100);
  s.rx_and_post(s.packet(Operation::kSend, 0, kOnly | wire::kAckRequest), 10, s.work(Opcode::kSend, 10));
  s.expect_ack(0);
  s.expect(Operation::kSend, 0);
}

TEST(WireResponder, OwesAnAcknowledgementBeforeTheProgramCanKnow) {
  Script s(QpType::kRc);
  s.post_receive(100);
  bool owed = false;
  s.on_receive = [&] { owed = s.qp().responder().may_owe(); };
  s.rx(s.packet(Operation::kSend, 0, Script::kOnly | wire::kAckRequest), 64);
  EXPECT_TRUE(owed) << "a thread that answers at once would be first";
  s.expect_ack(0);
  EXPECT_FALSE(s.qp().responder().may_owe());
}

// Programs that wait for bytes in their memory: only the engine thread looks for packets.
TEST(WireResponder, LetsAnswersTakeAcknowledgementsAlong) {
  Script s(QpType::kRc);
  uint32_t n = 0;
  const auto comes = [&] {
    s.post_receive(100);
    s.rx(s.packet(Operation::kSend, n, kOnly | wire::kAckRequest), 10);
  };
  const auto answered = [&] {
    s.expect_ack(n);
    s.expect(Operation::kSend, n);
    s.rx(s.ack(n++));
  };
  for (int i = 0; i < 3; i++) {
    comes();
    EXPECT_EQ(1u, s.sent());
    s.post(s.work(Opcode::kSend, 10));
    answered();
  }
  for (int i = 0; i < 2; i++) {
    comes();
    s.expect_nothing();
    s.post(s.work(Opcode::kSend, 10));
    answered();
  }
  comes();
  s.expect_nothing();
  s.pass(100'000);
  s.expect_nothing();
  s.pass(150'000);
  s.expect_ack(n++);  // no answer came
  comes();
  s.expect_ack(n);
}

TEST(AnswerHabit, ThreeAnswersInARowMakeOne) {
  engine::AnswerHabit habit;
  for (uint32_t look = 1; look <= 3; look++) {
    EXPECT_FALSE(habit.expects_answer());
    habit.on_alone(look, false);
    habit.on_send(look);
  }
  EXPECT_TRUE(habit.expects_answer());
  habit.on_alone(9, true);  // was kept for an answer that did not come
  EXPECT_FALSE(habit.expects_answer());
  habit.on_send(10);  // too late
  for (uint32_t look = 11; look <= 13; look++) {
    habit.on_alone(look, false);
    habit.on_send(look);
  }
  EXPECT_TRUE(habit.expects_answer());
}

TEST(WireResponder, SaysOnceWhatIsMissing) {
  Script s(QpType::kRc);
  for (int i = 0; i < 4; i++) s.post_receive(100);
  s.rx(s.packet(Operation::kSend, 1, kOnly | wire::kAckRequest), 10);
  s.expect_ack(0, wire::kNakSequence);
  s.rx(s.packet(Operation::kSend, 2, kOnly | wire::kAckRequest), 10);
  s.expect_nothing();
  s.rx(s.packet(Operation::kSend, 0, kOnly | wire::kAckRequest), 10);
  s.expect_ack(0);
  s.rx(s.packet(Operation::kSend, 3, kOnly | wire::kAckRequest), 10);
  s.expect_ack(1, wire::kNakSequence);
}

TEST(WireResponder, GhostsGetNoAnswer) {
  Script s(QpType::kRc);
  s.post_receive(100);
  s.rx(s.packet(Operation::kSend, 0x500000, kOnly | wire::kAckRequest), 10);
  s.rx(s.packet(Operation::kSend, 0x1000000 - 0x500000, kOnly | wire::kAckRequest), 10);
  Segment spoofed = s.packet(Operation::kSend, 0, kOnly | wire::kAckRequest);
  spoofed.source_gid = address_of(2);
  s.rx(spoofed, 10);
  s.expect_nothing();
  s.expect_no_receive();
}

TEST(WireResponder, IsNotReadyWithoutReceiveRequests) {
  Script s(QpType::kRc);
  s.rx(s.packet(Operation::kSend, 0, kOnly | wire::kAckRequest), 10);
  s.expect_ack(0, wire::kRnrNak | 12);
  s.rx(s.packet(Operation::kSend, 1, kOnly | wire::kAckRequest), 10);
  s.expect_nothing();
  s.post_receive(100);
  s.rx(s.packet(Operation::kSend, 0, kOnly | wire::kAckRequest), 10);
  s.expect_ack(0);
  s.expect_receive();
}

TEST(WireResponder, AsksTwiceForAReceiveRequestOfALongWrite) {
  Script s(QpType::kRc);
  Segment first = s.packet(Operation::kWrite, 0, wire::kFirst);
  first.total_length = kMtu + 10;
  s.rx(first, kMtu);
  const Segment last = s.packet(Operation::kWrite, 1, wire::kLast | wire::kImmediate | wire::kAckRequest);
  s.rx(last, 10);
  s.expect_ack(1, wire::kRnrNak | 12);
  s.post_receive(0);
  s.rx(last, 10);
  s.expect_ack(1);
  EXPECT_EQ(kMtu + 10, s.expect_receive().bytes);
}

TEST(WireResponder, ReadsAgainFromWhereItIsAsked) {
  Script s(QpType::kRc);
  Segment read = s.packet(Operation::kReadRequest, 0, kOnly | wire::kAckRequest);
  read.total_length = 3 * kMtu;
  s.rx(read);
  EXPECT_EQ(3 * kMtu, s.expect(Operation::kReadResponse, 0).length);
  s.post_receive(100);
  s.rx(s.packet(Operation::kSend, 3, kOnly | wire::kAckRequest), 10);
  s.expect_ack(3);
  Segment again = s.packet(Operation::kReadRequest, 1, kOnly | wire::kAckRequest);
  again.remote_address += kMtu;
  again.total_length = 2 * kMtu;
  s.rx(again);
  EXPECT_EQ(2 * kMtu, s.expect(Operation::kReadResponse, 1).length);
  again.rkey ^= 0x1000;
  s.rx(again);
  s.expect_nothing();  // late, and no reason to break the connection
  EXPECT_EQ(engine::QpState::kRts, s.qp().state());
}

TEST(WireResponder, AtomicsAreCarriedOutOnce) {
  Script s(QpType::kRc);
  std::memset(s.memory(), 0, 8);
  Segment add = s.packet(Operation::kFetchAdd, 0, kOnly | wire::kAckRequest);
  add.swap_or_add = 5;
  add.total_length = 8;
  s.rx(add);
  EXPECT_EQ(0u, s.expect(Operation::kAtomicResponse, 0).swap_or_add);
  add.psn = add.base_psn = wire::psn_add(Script::kFirstPsn, 1);
  s.rx(add);
  EXPECT_EQ(5u, s.expect(Operation::kAtomicResponse, 1).swap_or_add);
  add.psn = add.base_psn = Script::kFirstPsn;
  s.rx(add);
  EXPECT_EQ(0u, s.expect(Operation::kAtomicResponse, 0).swap_or_add);
  uint64_t value;
  std::memcpy(&value, s.memory(), sizeof value);
  EXPECT_EQ(10u, value);
}

TEST(WireResponder, PacketsOfTheWrongShapeAreRefused) {
  const std::pair<uint32_t, uint32_t> kWrong[] = {
      {wire::kFirst, kMtu - 4}, {kOnly, kMtu + 4}, {wire::kLast, 10}};
  for (const auto& [flags, length] : kWrong) {
    Script s(QpType::kRc);
    s.post_receive(1000);
    s.rx(s.packet(Operation::kSend, 0, flags), length);
    s.expect_ack(0, wire::kNakInvalidRequest);
    EXPECT_EQ(engine::QpState::kError, s.qp().state());
  }
  Script s(QpType::kRc);
  s.post_receive(1000);
  s.rx(s.packet(Operation::kSend, 0, wire::kFirst), kMtu);
  s.rx(s.packet(Operation::kWrite, 1, wire::kLast), 10);
  s.expect_ack(1, wire::kNakInvalidRequest);
}

TEST(WireResponder, WrongKeysAreRefused) {
  Script s(QpType::kRc);
  Segment write = s.packet(Operation::kWrite, 0, kOnly | wire::kAckRequest);
  write.rkey ^= 0x100;
  const std::vector<uint8_t> was(s.memory(), s.memory() + 64 * 1024);
  s.rx(write, 10);
  s.expect_ack(0, wire::kNakRemoteAccess);
  EXPECT_EQ(0, std::memcmp(was.data(), s.memory(), was.size()));
}

TEST(WireResponder, TellsOfCongestionNotTooOften) {
  Script s(QpType::kRc);
  s.post_receive(100);
  s.rx(s.packet(Operation::kSend, 0, kOnly | wire::kAckRequest | wire::kCongested), 10);
  EXPECT_EQ(Operation::kCongestion,
            s.expect(Operation::kCongestion, 0x1000000 - Script::kFirstPsn).operation);
  s.expect_ack(0);
  s.rx(s.packet(Operation::kSend, 0, kOnly | wire::kAckRequest | wire::kCongested), 10);
  s.expect_ack(0);
  s.expect_nothing();
}

TEST(WireUnreliable, DropsBrokenMessagesAndTakesTheNext) {
  Script s(QpType::kUc);
  s.post_receive(1000);
  s.rx(s.packet(Operation::kSend, 0, wire::kFirst), kMtu, 1);
  s.rx(s.packet(Operation::kSend, 2, wire::kLast), 10, 3);  // 1 is missing
  s.expect_no_receive();
  s.rx(s.packet(Operation::kSend, 5, kOnly), 20, 4);
  EXPECT_EQ(20u, s.expect_receive().bytes);  // into the same receive request
  s.rx(s.packet(Operation::kSend, 5, kOnly), 20, 4);
  s.rx(s.packet(Operation::kSend, 4, kOnly), 20, 4);
  s.expect_no_receive();
  s.expect_nothing();
}

}  // namespace
}  // namespace verbatim::simulation
