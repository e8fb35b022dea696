// SPDX-License-Identifier: MIT
// DC initiators and targets, in the ways of engine_test.
#include <gtest/gtest.h>

#include <numeric>

#include "testing/engine_ways.h"

namespace verbatim::testing {
namespace {

using namespace engine;

constexpr uint64_t kKey = 0x1122334455667788;

class DcTest : public EngineTest {
 protected:
  static SendWork at(SendWork work, const TestQp& target, uint64_t key = kKey, uint16_t stream = 0) {
    work.destination.gid = world_gid();
    work.destination.qpn = target.number();
    work.destination.access_key = key;
    work.destination.stream = stream;
    return work;
  }
  static void expect_statuses(const TestQp& qp, const std::vector<Status>& statuses) {
    ASSERT_EQ(statuses.size(), qp.send_completions.size());
    for (size_t i = 0; i < statuses.size(); i++) {
      EXPECT_EQ(i, qp.send_completions[i].index);
      EXPECT_EQ(statuses[i], qp.send_completions[i].status) << i;
    }
  }
};

struct Initiator : TestQp {
  explicit Initiator(Node& node, uint32_t errored_streams_max = 1, uint32_t depth = 16)
      : TestQp(node, QpType::kDci, {0, errored_streams_max}, 1, depth) {
    start();
  }
};
struct Target : TestQp {
  explicit Target(Node& node, uint64_t key = kKey) : TestQp(node, QpType::kDct, {key, 1}) { start(); }
};

TEST_P(DcTest, SendsOfEverySizeArriveIntact) {
  constexpr size_t kBytes = 3 << 20;
  TestMemory from(a(), kBytes, kLocalWrite), into(b(), kBytes, kLocalWrite);
  std::iota(from.data(), from.data() + kBytes, 1);
  Initiator initiator(a());
  Target target(b());
  size_t n = 0;
  for (uint32_t size : {0u, 1u, 16u, 17u, 64u, 1025u, 8192u, 8193u, 3u << 20}) {
    std::fill(into.data(), into.data() + kBytes, 0);
    target.post_receive(into.data(), kBytes, into.key());
    initiator.post(at(work(Opcode::kSend, from, size), target));
    settle();
    ASSERT_EQ(++n, target.receive_completions.size()) << size;
    const ReceiveCompletion& got = target.receive_completions.back();
    EXPECT_EQ(Status::kSuccess, got.status);
    EXPECT_EQ(size, got.bytes);
    EXPECT_EQ(initiator.number(), got.src_qpn);
    EXPECT_FALSE(got.has_grh);
    EXPECT_EQ(0, memcmp(from.data(), into.data(), size));
  }
  expect_statuses(initiator, std::vector<Status>(n, Status::kSuccess));
  EXPECT_TRUE(target.events.empty());
  EXPECT_EQ(1u, target.qp().target()->initiators());
}

TEST_P(DcTest, OneSidedOperations) {
  constexpr size_t kBytes = 1 << 20;
  TestMemory from(a(), kBytes, kLocalWrite), back(a(), kBytes, kLocalWrite), into(b(), kBytes, kAll);
  std::iota(from.data(), from.data() + kBytes, 3);
  Initiator initiator(a());
  Target target(b());
  for (uint32_t size : {0u, 8u, 5000u, 20'000u, 1u << 20}) {
    std::fill(into.data(), into.data() + kBytes, 0);
    initiator.post(at(to(work(Opcode::kWrite, from, size), into), target));
    initiator.post(at(to(work(Opcode::kRead, back, size), into), target));
    settle();
    EXPECT_EQ(0, memcmp(from.data(), into.data(), size)) << size;
    EXPECT_EQ(0, memcmp(from.data(), back.data(), size)) << size;
  }
  uint64_t value = 40;
  memcpy(into.data(), &value, 8);
  SendWork add = at(to(work(Opcode::kFetchAdd, back, 8), into), target);
  add.swap_or_add = 2;
  initiator.post(add);
  target.post_receive(nullptr, 0, 0);
  SendWork immediate = at(to(work(Opcode::kWriteImmediate, from, 20'000), into, 64), target);
  immediate.immediate = 0x12345678;
  initiator.post(immediate);
  settle();
  memcpy(&value, into.data(), 8);
  EXPECT_EQ(42u, value);
  memcpy(&value, back.data(), 8);
  EXPECT_EQ(40u, value);
  EXPECT_EQ(0, memcmp(from.data(), into.data() + 64, 20'000));
  ASSERT_EQ(1u, target.receive_completions.size());
  EXPECT_EQ(Opcode::kWriteImmediate, target.receive_completions[0].opcode);
  EXPECT_EQ(0x12345678u, target.receive_completions[0].immediate);
  expect_statuses(initiator, std::vector<Status>(12, Status::kSuccess));
}

TEST_P(DcTest, AlternatingTargetsGetTheirOwnInOrder) {
  constexpr uint32_t kMessages = 300;
  TestMemory from(a(), kMessages * 4, kLocalWrite), into(b(), kMessages * 4, kAll);
  for (uint32_t i = 0; i < kMessages; i++) memcpy(from.data() + i * 4, &i, 4);
  Initiator initiator(a(), 1, 512);
  Target one(b()), two(b(), 5), here(a(), 6);
  struct {
    Target& target;
    uint64_t key;
    std::vector<uint32_t> expected;
  } targets[] = {{one, kKey, {}}, {two, 5, {}}, {here, 6, {}}};
  TestMemory near(a(), kMessages * 4, kAll);
  for (uint32_t i = 0; i < kMessages; i++) {
    const size_t which = i / 7 % 3;
    auto& to = targets[(which + i / 50) % 3];
    TestMemory& memory = &to.target == &here ? near : into;
    to.target.post_receive(memory.data() + i * 4, 4, memory.key());
    to.expected.push_back(i);
    SendWork send = at(work(Opcode::kSendImmediate, from, 4, i * 4), to.target, to.key);
    send.immediate = i;
    send.signaled = i % 10 == 0;
    initiator.post(send);
  }
  settle();
  ASSERT_EQ(kMessages, initiator.send_completions.size());
  uint32_t connected = 0;
  for (const auto& to : targets) {
    ASSERT_EQ(to.expected.size(), to.target.receive_completions.size());
    for (size_t i = 0; i < to.expected.size(); i++) {
      EXPECT_EQ(to.expected[i], to.target.receive_completions[i].immediate);
      const char* got = (&to.target == &here ? near : into).data() + to.expected[i] * 4;
      EXPECT_EQ(0, memcmp(got, &to.expected[i], 4));
    }
    connected += static_cast<uint32_t>(to.target.qp().target()->initiators());
  }
  EXPECT_EQ(1u, connected) << "former targets are told";
}

TEST_P(DcTest, AWrongKeyFailsTheInitiatorOnly) {
  TestMemory from(a(), 64, kLocalWrite), into(b(), 64, kAll);
  Target target(b());
  Initiator good(a());
  const Opcode kinds[] = {Opcode::kSend, Opcode::kWrite, Opcode::kRead, Opcode::kFetchAdd};
  uint32_t violations = 0;
  for (const Opcode kind : kinds) {
    Initiator bad(a());
    bad.post(at(to(work(kind, from, 8), into), target, kKey + 1));
    bad.post(at(to(work(kind, from, 8), into), target, kKey));
    settle();
    expect_statuses(bad, {Status::kRemoteAccess, Status::kFlushed});
    EXPECT_EQ(QpState::kError, bad.qp().state());
    EXPECT_EQ(++violations, target.qp().key_violations());
    target.post_receive(into.data(), 64, into.key());
    good.post(at(work(Opcode::kSend, from, 64), target));
    settle();
  }
  expect_statuses(good, std::vector<Status>(4, Status::kSuccess));
  EXPECT_EQ(4u, target.receive_completions.size());
  EXPECT_EQ(QpState::kRtr, target.qp().state());
  EXPECT_TRUE(target.events.empty());
}

TEST_P(DcTest, TheTargetHonoursItsAccessFlags) {
  TestMemory from(a(), 64, kLocalWrite), into(b(), 64, kAll), closed(b(), 64, kLocalWrite);
  TestQp target(b(), QpType::kDct, {kKey, 1});
  target.attributes.access = kLocalWrite | kRemoteRead;
  target.start();
  const struct {
    SendWork work;
    Status status;
  } cases[] = {{to(work(Opcode::kRead, from, 64), into), Status::kSuccess},
               {to(work(Opcode::kWrite, from, 64), into), Status::kRemoteAccess},
               {to(work(Opcode::kFetchAdd, from, 8), into), Status::kRemoteAccess},
               {to(work(Opcode::kRead, from, 64), closed), Status::kRemoteAccess},
               {to(work(Opcode::kRead, from, 64), into, 1), Status::kRemoteAccess}};
  for (const auto& c : cases) {
    Initiator initiator(a());
    initiator.post(at(c.work, target));
    settle();
    expect_statuses(initiator, {c.status});
  }
  EXPECT_EQ(QpState::kRtr, target.qp().state());
}

TEST_P(DcTest, ManyInitiatorsAndOneTarget) {
  constexpr uint32_t kInitiators = 200;
  TestMemory from(a(), 64, kLocalWrite), into(b(), 64, kLocalWrite);
  Target target(b());
  std::vector<std::unique_ptr<Initiator>> initiators;
  for (uint32_t i = 0; i < kInitiators; i++) initiators.push_back(std::make_unique<Initiator>(a()));
  for (int round = 0; round < 3; round++)
    for (const auto& initiator : initiators) {
      target.post_receive(into.data(), 64, into.key());
      initiator->post(at(work(Opcode::kSend, from, 64), target));
    }
  settle();
  EXPECT_EQ(3 * kInitiators, target.receive_completions.size());
  EXPECT_EQ(kInitiators, target.qp().target()->initiators());
  for (const auto& initiator : initiators)
    expect_statuses(*initiator, std::vector<Status>(3, Status::kSuccess));
  initiators.resize(kInitiators / 2);  // those that go say so
  settle();
  EXPECT_EQ(kInitiators / 2, target.qp().target()->initiators());
}

// Answers may be sent before the engine comes to its list of those who owe some: the list names them still.
TEST_P(DcTest, AnInitiatorThatGoesMayBeListedStill) {
  constexpr uint32_t kMoreThanOneLook = 300;
  TestMemory from(a(), 64, kLocalWrite), into(b(), 64, kLocalWrite);
  Target target(b());
  auto initiator = std::make_unique<Initiator>(a());
  TestQp talker(a(), QpType::kUd), deaf(b(), QpType::kUd);
  talker.connect(deaf);
  deaf.connect(talker);
  SendWork datagram = work(Opcode::kSend, from, 64);
  datagram.destination.gid = world_gid();
  datagram.destination.qpn = deaf.number();
  target.post_receive(into.data(), 64, into.key());
  initiator->post(at(work(Opcode::kSend, from, 64), target));
  for (uint32_t i = 0; i < kMoreThanOneLook; i++) talker.post(datagram);
  b().engine().schedule(target.qp());
  (void)b().engine().progress();  // as more is waiting, the list has its turn later
  initiator.reset();
  settle();
  EXPECT_EQ(1u, target.receive_completions.size());
  EXPECT_LE(target.qp().target()->initiators(), 1u) << "one that was listed stays until room is needed";
  Initiator next(a());
  target.post_receive(into.data(), 64, into.key());
  next.post(at(work(Opcode::kSend, from, 64), target));
  settle();
  expect_statuses(next, {Status::kSuccess});
}

TEST_P(DcTest, ForgetsIdleInitiatorsWhenThereAreTooMany) {
  constexpr uint32_t kMore = 20;
  TestMemory from(a(), 64, kLocalWrite), into(b(), 64, kLocalWrite);
  Target target(b());
  std::vector<std::unique_ptr<Initiator>> initiators;
  const auto send = [&](Initiator& initiator) {
    target.post_receive(into.data(), 64, into.key());
    initiator.post(at(work(Opcode::kSend, from, 64), target));
  };
  for (uint32_t i = 0; i < DcTarget::kInitiatorsMax + kMore; i++) {
    initiators.push_back(std::make_unique<Initiator>(a(), 1, 2));
    send(*initiators.back());
    if (i % 64 == 0) settle();
  }
  settle();
  EXPECT_EQ(DcTarget::kInitiatorsMax, target.qp().target()->initiators());
  for (uint32_t i = 0; i < kMore; i++) send(*initiators[i]);
  settle();
  EXPECT_EQ(DcTarget::kInitiatorsMax + 2 * kMore, target.receive_completions.size());
  for (const auto& initiator : initiators)
    for (const SendCompletion& completion : initiator->send_completions)
      EXPECT_EQ(Status::kSuccess, completion.status);
}

TEST_P(DcTest, WaitsForReceiveRequests) {
  TestMemory from(a(), 20'000, kLocalWrite), into(b(), 20'000, kLocalWrite);
  Target target(b());
  Initiator one(a()), two(a());
  for (int i = 0; i < 3; i++) one.post(at(work(Opcode::kSend, from, 20'000), target));
  two.post(at(work(Opcode::kSend, from, 64), target));
  settle();
  EXPECT_TRUE(one.send_completions.empty());
  for (int i = 0; i < 4; i++) target.post_receive(into.data(), 20'000, into.key());
  pass(50'000'000);
  expect_statuses(one, std::vector<Status>(3, Status::kSuccess));
  expect_statuses(two, {Status::kSuccess});
  EXPECT_EQ(4u, target.receive_completions.size());

  Initiator impatient(a());
  impatient.attributes.rnr_retry = 2;
  impatient.step(QpState::kReset, 0);
  impatient.start();
  impatient.post(at(work(Opcode::kSend, from, 64), target));
  settle();
  pass(100'000'000);
  expect_statuses(impatient, {Status::kRnrRetryExceeded});
}

TEST_P(DcTest, ATargetThatGoesAway) {
  TestMemory from(a(), 64, kLocalWrite), into(b(), 64, kLocalWrite);
  Initiator initiator(a());
  Target other(b(), 7);
  {
    Target target(b());
    target.post_receive(into.data(), 64, into.key());
    initiator.post(at(work(Opcode::kSend, from, 64), target));
    settle();
    initiator.post(at(work(Opcode::kSend, from, 64), target));  // nothing is posted
    settle();
  }
  pass(2'000'000'000);
  expect_statuses(initiator, {Status::kSuccess, Status::kRetryExceeded});
  EXPECT_EQ(QpState::kError, initiator.qp().state());
  initiator.sends.clear();
  initiator.send_completions.clear();
  initiator.step(QpState::kReset, 0);
  initiator.start();
  other.post_receive(into.data(), 64, into.key());
  initiator.post(at(work(Opcode::kSend, from, 64), other, 7));
  settle();
  expect_statuses(initiator, {Status::kSuccess});
}

TEST_P(DcTest, ALostRefusalIsMissed) {
  TestMemory from(a(), 64, kLocalWrite), back(b(), 64, kLocalWrite);
  auto target = std::make_unique<Target>(b());
  Initiator initiator(a()), stuffer(b(), 1, 4096);
  Target stuffed(a());
  initiator.post(at(work(Opcode::kSend, from, 64), *target));
  for (int i = 0; i < 3000; i++) stuffer.post(at(work(Opcode::kSend, back, 0), stuffed));
  target.reset();
  for (int i = 0; i < 1000; i++) b().engine().progress();
  pass(2'000'000'000);
  expect_statuses(initiator, {Status::kRetryExceeded});
}

TEST_P(DcTest, ADrainingTargetIsRidOfInitiatorsThatHaveMovedOn) {
  TestMemory from(a(), 64, kLocalWrite), into(b(), 64, kLocalWrite);
  Initiator initiator(a());
  Target former(b()), next(b(), 5);
  for (Target* target : {&former, &next}) target->post_receive(into.data(), 64, into.key());
  initiator.post(at(work(Opcode::kSend, from, 64), former));
  initiator.post(at(work(Opcode::kSend, from, 64), next, 5));
  settle();
  expect_statuses(initiator, {Status::kSuccess, Status::kSuccess});
  EXPECT_EQ(0u, former.qp().target()->initiators());
  EXPECT_EQ(1u, next.qp().target()->initiators());
  former.qp().target()->drain();
  EXPECT_EQ(std::vector<AsyncEvent>{AsyncEvent::kTargetDrained}, former.events);
}

TEST_P(DcTest, AFailedStreamFailsItsOwnWorkOnly) {
  TestMemory from(a(), 64, kLocalWrite), into(b(), 64, kAll);
  Target target(b());
  Initiator initiator(a(), 3);
  for (int i = 0; i < 8; i++) target.post_receive(into.data(), 64, into.key());
  const auto post = [&](uint16_t stream, bool sound = true) {
    SendWork send = at(work(Opcode::kSend, from, 64), target, kKey, stream);
    if (!sound) send.sges[0].lkey ^= 1;
    initiator.post(send);
  };
  post(1);
  post(2, false);
  post(2);
  post(1);
  settle();
  expect_statuses(initiator,
                  {Status::kSuccess, Status::kLocalProtection, Status::kFlushed, Status::kSuccess});
  EXPECT_EQ(QpState::kRts, initiator.qp().state());
  EXPECT_FALSE(initiator.qp().reset_stream(1).ok()) << "it has not failed";
  EXPECT_TRUE(initiator.qp().reset_stream(2).ok());
  post(2);
  // Refused by the target: what was sent behind it on other streams goes again.
  initiator.post(at(to(work(Opcode::kWrite, from, 64), into, 1), target, kKey, 4));
  post(4);
  post(1);
  settle();
  ASSERT_EQ(8u, initiator.send_completions.size());
  EXPECT_EQ(Status::kSuccess, initiator.send_completions[4].status);
  EXPECT_EQ(Status::kRemoteAccess, initiator.send_completions[5].status);
  EXPECT_EQ(Status::kFlushed, initiator.send_completions[6].status);
  EXPECT_EQ(Status::kSuccess, initiator.send_completions[7].status);
  EXPECT_EQ(4u, target.receive_completions.size());
  post(5, false);  // the second of three
  settle();
  EXPECT_EQ(QpState::kRts, initiator.qp().state());
  post(6, false);
  post(1);
  settle();
  EXPECT_EQ(QpState::kError, initiator.qp().state());
  ASSERT_EQ(11u, initiator.send_completions.size());
  EXPECT_EQ(Status::kLocalProtection, initiator.send_completions[9].status);
  EXPECT_EQ(Status::kFlushed, initiator.send_completions[10].status);
}

TEST_P(DcTest, AStreamToALostTargetFailsAlone) {
  TestMemory from(a(), 64, kLocalWrite), into(b(), 64, kAll);
  Target target(b());
  Initiator initiator(a(), 4);
  SendWork lost = at(work(Opcode::kSend, from, 64), target, kKey, 9);
  lost.destination.qpn ^= 0x2000;  // nobody has this number
  initiator.post(lost);
  target.post_receive(into.data(), 64, into.key());
  initiator.post(at(work(Opcode::kSend, from, 64), target, kKey, 1));
  pass(3'000'000'000);
  expect_statuses(initiator, {Status::kRetryExceeded, Status::kSuccess});
  EXPECT_EQ(1u, target.receive_completions.size());
}

// Only where a message takes several segments.
TEST_P(DcTest, AMessageThatIsBrokenOffEndsItsReceiveRequest) {
  if (GetParam() != Way::kRings) return;  // it took one step
  constexpr uint32_t kBytes = 3 << 20;
  TestMemory from(a(), kBytes, kLocalWrite), into(b(), kBytes, kLocalWrite);
  Target target(b());
  Initiator initiator(a());
  target.post_receive(into.data(), kBytes, into.key());
  target.post_receive(into.data(), kBytes, into.key());
  initiator.post(at(work(Opcode::kSend, from, kBytes), target));
  for (int i = 0; i < 100; i++) b().engine().progress();
  EXPECT_TRUE(target.receive_completions.empty());
  initiator.step(QpState::kReset, 0);
  initiator.sends.clear();
  settle();
  ASSERT_EQ(1u, target.receive_completions.size());
  EXPECT_EQ(Status::kRemoteAborted, target.receive_completions[0].status);
  EXPECT_EQ(0u, target.qp().target()->initiators());
  initiator.start();
  initiator.post(at(work(Opcode::kSend, from, kBytes), target));
  settle();
  ASSERT_EQ(2u, target.receive_completions.size());
  EXPECT_EQ(Status::kSuccess, target.receive_completions[1].status);
}

TEST_P(DcTest, TransitionsOfInitiatorsAndTargets) {
  TestQp target(b(), QpType::kDct, {kKey, 1});
  QpAttributes attributes = target.attributes;
  const auto tried = [&](TestQp& qp, QpState state, uint32_t mask) {
    attributes.state = state;
    return qp.qp().modify(attributes, mask | kQpState).ok();
  };
  EXPECT_FALSE(tried(target, QpState::kInit, kQpPkeyIndex | kQpPort)) << "no access flags";
  EXPECT_TRUE(tried(target, QpState::kInit, kQpPkeyIndex | kQpPort | kQpAccessFlags));
  EXPECT_FALSE(tried(target, QpState::kRtr, kQpAv | kQpPathMtu));
  EXPECT_TRUE(tried(target, QpState::kRtr, kQpAv | kQpPathMtu | kQpMinRnrTimer));
  for (const QpState state : {QpState::kRts, QpState::kReset, QpState::kError})
    EXPECT_FALSE(tried(target, state, state == QpState::kRts ? uint32_t{kQpSqPsn} : 0));
  TestQp initiator(a(), QpType::kDci);
  EXPECT_FALSE(tried(initiator, QpState::kInit, kQpPkeyIndex | kQpPort | kQpAccessFlags));
  EXPECT_TRUE(tried(initiator, QpState::kInit, kQpPkeyIndex | kQpPort));
  EXPECT_TRUE(tried(initiator, QpState::kRtr, kQpPathMtu));
  EXPECT_FALSE(tried(initiator, QpState::kRts, kQpSqPsn));
  EXPECT_TRUE(
      tried(initiator, QpState::kRts, kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpSqPsn | kQpMaxQpRdAtomic));
  EXPECT_FALSE(tried(initiator, QpState::kSqd, 0));
  EXPECT_TRUE(tried(initiator, QpState::kError, 0));
  EXPECT_TRUE(tried(initiator, QpState::kReset, 0));
}

INSTANTIATE_TEST_SUITE_P(Ways, DcTest, ::testing::Values(Way::kLoopback, Way::kDirect, Way::kRings),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace verbatim::testing
