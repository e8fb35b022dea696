// SPDX-License-Identifier: MIT
// The engine's behaviour, each case once over loopback, once between two processes' worth with direct access,
// and once where everything goes through the rings.
#include <gtest/gtest.h>

#include <numeric>

#include "testing/engine_ways.h"

namespace verbatim::testing {
namespace {

using namespace engine;

struct Pair {
  Pair(Node& a, Node& b, QpType type = QpType::kRc) : left(a, type), right(b, type) {}
  void connect() {
    left.connect(right);
    right.connect(left);
  }
  TestQp left, right;
};

TEST_P(EngineTest, SendsOfEverySizeArriveIntact) {
  constexpr size_t kBytes = 3 << 20;
  TestMemory from(a(), kBytes, kLocalWrite), into(b(), kBytes, kLocalWrite);
  std::iota(from.data(), from.data() + kBytes, 1);
  Pair pair(a(), b());
  pair.connect();
  size_t n = 0;
  for (uint32_t size : {0u, 1u, 31u, 32u, 33u, 64u, 1024u, 1025u, 8191u, 8192u, 8193u, 100'000u, 3u << 20}) {
    std::fill(into.data(), into.data() + kBytes, 0);
    pair.right.post_receive(into.data(), kBytes, into.key());
    pair.left.post(work(Opcode::kSend, from, size));
    settle();
    ASSERT_EQ(++n, pair.right.receive_completions.size()) << size;
    ASSERT_EQ(n, pair.left.send_completions.size()) << size;
    EXPECT_EQ(Status::kSuccess, pair.left.send_completions.back().status);
    EXPECT_EQ(Status::kSuccess, pair.right.receive_completions.back().status);
    EXPECT_EQ(size, pair.right.receive_completions.back().bytes);
    EXPECT_EQ(0, memcmp(from.data(), into.data(), size));
    if (size < kBytes) {
      EXPECT_EQ(0, into.data()[size]);
    }
  }
}

TEST_P(EngineTest, WritesReadsAndImmediate) {
  constexpr size_t kBytes = 1 << 20;
  TestMemory from(a(), kBytes, kLocalWrite), into(b(), kBytes, kAll);
  std::iota(from.data(), from.data() + kBytes, 3);
  Pair pair(a(), b());
  pair.connect();
  for (uint32_t size : {0u, 8u, 5000u, 20'000u, 1u << 20}) {
    std::fill(into.data(), into.data() + kBytes, 0);
    pair.left.post(to(work(Opcode::kWrite, from, size), into));
    settle();
    EXPECT_EQ(0, memcmp(from.data(), into.data(), size)) << size;
    TestMemory back(a(), kBytes, kLocalWrite);
    pair.left.post(to(work(Opcode::kRead, back, size), into));
    settle();
    EXPECT_EQ(0, memcmp(from.data(), back.data(), size)) << size;
  }
  pair.right.post_receive(nullptr, 0, 0);
  SendWork immediate = to(work(Opcode::kWriteImmediate, from, 20'000), into);
  immediate.immediate = 0x12345678;
  pair.left.post(immediate);
  settle();
  ASSERT_EQ(1u, pair.right.receive_completions.size());
  EXPECT_EQ(Opcode::kWriteImmediate, pair.right.receive_completions[0].opcode);
  EXPECT_EQ(20'000u, pair.right.receive_completions[0].bytes);
  EXPECT_EQ(0x12345678u, pair.right.receive_completions[0].immediate);
  for (const SendCompletion& completion : pair.left.send_completions)
    EXPECT_EQ(Status::kSuccess, completion.status);
  EXPECT_EQ(11u, pair.left.send_completions.size());
}

TEST_P(EngineTest, AtomicsReturnTheOldValue) {
  TestMemory local(a(), 64, kLocalWrite), remote(b(), 64, kAll);
  uint64_t value = 40;
  memcpy(remote.data() + 8, &value, 8);
  Pair pair(a(), b());
  pair.connect();
  SendWork add = to(work(Opcode::kFetchAdd, local, 8), remote, 8);
  add.swap_or_add = 2;
  pair.left.post(add);
  SendWork swap = to(work(Opcode::kCompareSwap, local, 8, 8), remote, 8);
  swap.compare = 42;
  swap.swap_or_add = 7;
  pair.left.post(swap);
  settle();
  ASSERT_EQ(2u, pair.left.send_completions.size());
  memcpy(&value, local.data(), 8);
  EXPECT_EQ(40u, value);
  memcpy(&value, local.data() + 8, 8);
  EXPECT_EQ(42u, value);
  memcpy(&value, remote.data() + 8, 8);
  EXPECT_EQ(7u, value);
}

TEST_P(EngineTest, AReadDoesNotSeeTheAtomicBehindIt) {
  constexpr uint32_t kBytes = 20'000;
  TestMemory local(a(), kBytes, kLocalWrite), result(a(), 64, kLocalWrite), remote(b(), kBytes, kAll);
  Pair pair(a(), b());
  pair.connect();
  pair.right.post_receive(nullptr, 0, 0);
  pair.left.post(work(Opcode::kSend, local, 0));  // what follows goes by requests
  pair.left.post(to(work(Opcode::kRead, local, kBytes), remote));
  SendWork add = to(work(Opcode::kFetchAdd, result, 8), remote);
  add.swap_or_add = 2;
  pair.left.post(add);
  settle();
  ASSERT_EQ(3u, pair.left.send_completions.size());
  uint64_t value = 1;
  memcpy(&value, local.data(), 8);
  EXPECT_EQ(0u, value);
  memcpy(&value, remote.data(), 8);
  EXPECT_EQ(2u, value);
}

TEST_P(EngineTest, MixedOperationsCompleteInOrder) {
  TestMemory local(a(), 1 << 16, kLocalWrite), remote(b(), 1 << 16, kAll);
  Pair pair(a(), b());
  pair.connect();
  const Opcode kinds[] = {Opcode::kSend, Opcode::kWrite, Opcode::kRead, Opcode::kFetchAdd};
  for (int i = 0; i < 400; i++) {
    const Opcode kind = kinds[(i * 7 + i / 5) % 4];
    if (kind == Opcode::kSend) pair.right.post_receive(remote.data(), 1 << 16, remote.key());
    pair.left.post(to(work(kind, local, kind == Opcode::kFetchAdd ? 8 : 9000), remote));
    if (i % 16 == 15) settle();
  }
  settle();
  ASSERT_EQ(400u, pair.left.send_completions.size());
  for (uint32_t i = 0; i < 400; i++) {
    EXPECT_EQ(i, pair.left.send_completions[i].index);
    EXPECT_EQ(Status::kSuccess, pair.left.send_completions[i].status);
  }
}

TEST_P(EngineTest, WaitsForAReceiverThatIsNotReady) {
  TestMemory from(a(), 20'000, kLocalWrite), into(b(), 20'000, kLocalWrite);
  Pair pair(a(), b());
  pair.connect();
  for (int i = 0; i < 3; i++) pair.left.post(work(Opcode::kSend, from, 20'000));
  settle();
  EXPECT_TRUE(pair.left.send_completions.empty());
  for (int i = 0; i < 3; i++) pair.right.post_receive(into.data(), 20'000, into.key());
  pass(50'000'000);
  EXPECT_EQ(3u, pair.left.send_completions.size());
  EXPECT_EQ(3u, pair.right.receive_completions.size());
}

TEST_P(EngineTest, GivesUpOnAReceiverThatNeverGetsReady) {
  TestMemory from(a(), 64, kLocalWrite);
  Pair pair(a(), b());
  pair.left.attributes.rnr_retry = 2;
  pair.connect();
  pair.left.post(work(Opcode::kSend, from, 64));
  pair.left.post(work(Opcode::kSend, from, 64));
  settle();
  pass(100'000'000);
  ASSERT_EQ(2u, pair.left.send_completions.size());
  EXPECT_EQ(Status::kRnrRetryExceeded, pair.left.send_completions[0].status);
  EXPECT_EQ(Status::kFlushed, pair.left.send_completions[1].status);
  EXPECT_EQ(QpState::kError, pair.left.qp().state());
}

TEST_P(EngineTest, RemoteRefusalsFailBothEnds) {
  TestMemory local(a(), 64, kLocalWrite), closed(b(), 64, kLocalWrite), other(b(), 64, kAll, 9);
  TestMemory open(b(), 64, kAll);
  const struct {
    SendWork work;
    Status status;
  } cases[] = {
      {to(work(Opcode::kWrite, local, 64), closed), Status::kRemoteAccess},
      {to(work(Opcode::kRead, local, 64), closed), Status::kRemoteAccess},
      {to(work(Opcode::kWrite, local, 64), other), Status::kRemoteAccess},
      {to(work(Opcode::kWrite, local, 64), open, 1), Status::kRemoteAccess},
      {to(work(Opcode::kFetchAdd, local, 8), open, 4), Status::kRemoteInvalidRequest},
      {to(work(Opcode::kFetchAdd, local, 8), closed), Status::kRemoteAccess},
  };
  for (const auto& c : cases) {
    Pair pair(a(), b());
    pair.connect();
    pair.right.post_receive(local.data(), 1, local.key());
    pair.left.post(c.work);
    settle();
    ASSERT_EQ(1u, pair.left.send_completions.size());
    EXPECT_EQ(c.status, pair.left.send_completions[0].status);
    EXPECT_EQ(QpState::kError, pair.left.qp().state());
    EXPECT_EQ(QpState::kError, pair.right.qp().state());
    ASSERT_EQ(1u, pair.right.events.size());
    ASSERT_EQ(1u, pair.right.receive_completions.size());
    EXPECT_EQ(Status::kFlushed, pair.right.receive_completions[0].status);
  }
}

TEST_P(EngineTest, LocalErrorsWaitForEarlierWork) {
  TestMemory local(a(), 64, kLocalWrite), into(b(), 64, kLocalWrite);
  Pair pair(a(), b());
  pair.connect();
  pair.right.post_receive(into.data(), 64, into.key());
  pair.left.post(work(Opcode::kSend, local, 64));
  SendWork bad = work(Opcode::kSend, local, 64);
  bad.sges[0].lkey ^= 1;
  pair.left.post(bad);
  pair.left.post(work(Opcode::kSend, local, 64));
  settle();
  ASSERT_EQ(3u, pair.left.send_completions.size());
  EXPECT_EQ(Status::kSuccess, pair.left.send_completions[0].status);
  EXPECT_EQ(Status::kLocalProtection, pair.left.send_completions[1].status);
  EXPECT_EQ(Status::kFlushed, pair.left.send_completions[2].status);
}

TEST_P(EngineTest, TooLongForTheReceiveRequest) {
  TestMemory from(a(), 64, kLocalWrite), into(b(), 64, kLocalWrite);
  Pair pair(a(), b());
  pair.connect();
  pair.right.post_receive(into.data(), 63, into.key());
  pair.left.post(work(Opcode::kSend, from, 64));
  settle();
  ASSERT_EQ(1u, pair.right.receive_completions.size());
  EXPECT_EQ(Status::kLocalLength, pair.right.receive_completions[0].status);
  ASSERT_EQ(1u, pair.left.send_completions.size());
  EXPECT_EQ(Status::kRemoteInvalidRequest, pair.left.send_completions[0].status);
}

TEST_P(EngineTest, SaysThatThePeersAddressIsNotHere) {
  TestMemory from(a(), 64, kLocalWrite);
  Pair pair(a(), b());
  pair.left.attributes.path.dgid.bytes[15] = 99;
  pair.left.connect(pair.right);
  pair.left.post(work(Opcode::kSend, from, 64));
  pass(1'000'000'000);
  ASSERT_EQ(1u, pair.left.send_completions.size());
  EXPECT_EQ(Status::kRetryExceeded, pair.left.send_completions[0].status);
  const Reason& reason = a().engine().published().reasons[0];
  EXPECT_EQ(pair.left.number(), reason.qpn);
  EXPECT_NE(nullptr, std::strstr(reason.text, "its GID is not an address of this host")) << reason.text;
}

TEST_P(EngineTest, DisagreementOnThePsnLooksLikeLoss) {
  TestMemory from(a(), 64, kLocalWrite), into(b(), 64, kAll);
  Pair pair(a(), b());
  pair.left.connect(pair.right, 100, 100);
  pair.right.connect(pair.left, 100, 101);
  pair.right.post_receive(into.data(), 64, into.key());
  pair.left.post(to(work(Opcode::kWrite, from, 64), into));
  settle();
  pass(1'000'000'000);
  ASSERT_EQ(1u, pair.left.send_completions.size());
  EXPECT_EQ(Status::kRetryExceeded, pair.left.send_completions[0].status);
  EXPECT_EQ(QpState::kRts, pair.right.qp().state());
}

TEST_P(EngineTest, AQueuePairThatGoesAway) {
  TestMemory from(a(), 64, kLocalWrite);
  TestQp left(a(), QpType::kRc);
  {
    TestQp right(b(), QpType::kRc);
    left.connect(right);
    right.connect(left);
  }
  left.post(work(Opcode::kSend, from, 64));
  settle();
  pass(1'000'000'000);
  ASSERT_EQ(1u, left.send_completions.size());
  EXPECT_EQ(Status::kRetryExceeded, left.send_completions[0].status);
}

TEST_P(EngineTest, DatagramsCarryTheirHeader) {
  TestMemory from(a(), 4096, kLocalWrite), into(b(), 8192, kLocalWrite);
  std::iota(from.data(), from.data() + 4096, 1);
  Pair pair(a(), b(), QpType::kUd);
  pair.connect();
  pair.right.post_receive(into.data(), 8192, into.key());
  SendWork datagram = work(Opcode::kSendImmediate, from, 2000);
  datagram.immediate = 77;
  datagram.destination.gid = world_gid();
  datagram.destination.qpn = pair.right.number();
  datagram.destination.qkey = 0x22222222;
  pair.left.post(datagram);  // dropped: another Q_Key
  datagram.destination.qkey = 0x11111111;
  pair.left.post(datagram);
  settle();
  ASSERT_EQ(2u, pair.left.send_completions.size());
  ASSERT_EQ(1u, pair.right.receive_completions.size());
  const ReceiveCompletion& got = pair.right.receive_completions[0];
  EXPECT_EQ(2040u, got.bytes);
  EXPECT_EQ(77u, got.immediate);
  EXPECT_EQ(pair.left.number(), got.src_qpn);
  EXPECT_TRUE(got.has_grh);
  EXPECT_TRUE(got.is_ipv4);
  EXPECT_EQ(0x45, into.data()[20]);
  EXPECT_EQ(0, memcmp(into.data() + 40, from.data(), 2000));
}

TEST_P(EngineTest, UnreliableConnected) {
  TestMemory from(a(), 20'000, kLocalWrite), into(b(), 20'000, kAll);
  std::iota(from.data(), from.data() + 20'000, 9);
  Pair pair(a(), b(), QpType::kUc);
  pair.connect();
  pair.left.post(work(Opcode::kSend, from, 20'000));  // nobody ready: dropped
  settle();
  pair.right.post_receive(into.data(), 20'000, into.key());
  pair.left.post(work(Opcode::kSend, from, 20'000));
  settle();
  ASSERT_EQ(2u, pair.left.send_completions.size());
  ASSERT_EQ(1u, pair.right.receive_completions.size());
  EXPECT_EQ(20'000u, pair.right.receive_completions[0].bytes);
  EXPECT_EQ(0, memcmp(into.data(), from.data(), 20'000));
}

TEST_P(EngineTest, FullRingsHoldBackAndGoOn) {
  TestMemory from(a(), 8192, kLocalWrite), into(b(), 8192, kLocalWrite);
  TestQp left(a(), QpType::kRc, 1, 4096), right(b(), QpType::kRc, 1, 4096);
  left.connect(right);
  right.connect(left);
  for (int i = 0; i < 1000; i++) right.post_receive(into.data(), 8192, into.key());
  for (int i = 0; i < 1000; i++) left.post(work(Opcode::kSend, from, 8192));
  settle();
  EXPECT_EQ(1000u, left.send_completions.size());
  EXPECT_EQ(1000u, right.receive_completions.size());
}

// The refusal of a queue pair that takes nothing any more finds no room: it is missed, not waited for.
TEST_P(EngineTest, ALostRefusalIsMissed) {
  TestMemory from(a(), 64, kLocalWrite), back(b(), 64, kLocalWrite);
  TestQp left(a(), QpType::kRc), right(b(), QpType::kRc);
  left.connect(right);
  right.connect(left);
  TestQp stuffer(b(), QpType::kRc, 1, 4096), stuffed(a(), QpType::kRc);
  stuffer.connect(stuffed);
  stuffed.connect(stuffer);
  left.post(work(Opcode::kSend, from, 64));
  for (int i = 0; i < 3000; i++) stuffer.post(work(Opcode::kSend, back, 0));
  right.step(QpState::kError, 0);
  for (int i = 0; i < 1000; i++) b().engine().progress();
  pass(2'000'000'000);
  ASSERT_EQ(1u, left.send_completions.size());
  EXPECT_EQ(Status::kRetryExceeded, left.send_completions[0].status);
}

// A program may write into a queue entry that the device is working on.
TEST_P(EngineTest, AnEntryThatChangesUnderWayFails) {
  constexpr uint32_t kLength = 1 << 20;
  TestMemory from(a(), kLength, kLocalWrite), into(b(), kLength, kLocalWrite);
  for (const bool shorter : {true, false}) {
    Pair pair(a(), b());
    pair.connect();
    pair.right.post_receive(into.data(), kLength, into.key());
    pair.left.post(work(Opcode::kSend, from, kLength));
    if (!pair.left.send_completions.empty() || GetParam() != Way::kRings) return;  // it took one step
    SendWork& changed = pair.left.sends[0];
    if (shorter) {
      changed.sges[0].length = 64;
    } else {
      changed.opcode = Opcode::kNop;
      changed.sge_count = 0;
    }
    settle();
    ASSERT_EQ(1u, pair.left.send_completions.size());
    EXPECT_EQ(Status::kLocalQpOperation, pair.left.send_completions[0].status);
    EXPECT_EQ(QpState::kError, pair.left.qp().state());
    EXPECT_TRUE(pair.right.receive_completions.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, EngineTest, ::testing::Values(Way::kLoopback, Way::kDirect, Way::kRings),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace verbatim::testing
