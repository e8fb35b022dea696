// SPDX-License-Identifier: MIT
// How often and how long a requester tries: receivers that are not ready, and peers that do not answer.
#include <chrono>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;
using std::chrono::milliseconds;

class Retries : public Played {};
VERBATIM_PLAY_BOTH_WAYS(Retries);

constexpr milliseconds kSlack(2000);  ///< how late a busy machine may be

/// Sends 8 bytes and expects them to fail with `status`, no sooner than after `least`.
void expect_failure(Endpoint& self, ibv_wc_status status, duration<double> least) {
  const auto start = Clock::now();
  EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
  const ibv_wc wc = self.wait();
  const duration<double> took = Clock::now() - start;
  EXPECT_EQ(wc.status, status);
  EXPECT_GE(took.count(), least.count());
  EXPECT_LE(took.count(), (least + kSlack).count());
  EXPECT_EQ(self.state(), IBV_QPS_ERR);
}

// Timer code 20 is 10.24 ms (IBA table 46). The first refusal starts the first wait; `rnr_retry` waits follow
// each other, and the refusal after the last one ends it.
constexpr uint8_t kTimerCode = 20;
constexpr duration<double> kTimer(0.01024);

void not_ready(Players players, uint8_t retries) {
  conformance::play(
      players, {.rnr_retries = retries, .rnr_timer = kTimerCode},
      [=](Endpoint& self) { expect_failure(self, IBV_WC_RNR_RETRY_EXC_ERR, retries * kTimer); },
      [](Endpoint& self) {
        EXPECT_TRUE(self.quiet());
        EXPECT_EQ(self.state(), IBV_QPS_RTS) << "the receiver has not failed";
      });
}
TEST_P(Retries, OfNoReadyReceiverAreNone) { not_ready(GetParam(), 0); }
TEST_P(Retries, OfNoReadyReceiverAreOne) { not_ready(GetParam(), 1); }
TEST_P(Retries, OfNoReadyReceiverAreSix) { not_ready(GetParam(), 6); }

TEST_P(Retries, OfNoReadyReceiverAreEndlessWithSeven) {
  play(
      {.rnr_retries = 7, .rnr_timer = 1},  // 10 us: thousands of tries
      [](Endpoint& self) {
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
        for (int i = 0; i < 10; ++i) EXPECT_TRUE(self.quiet());
        self.barrier();
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
      },
      [](Endpoint& self) {
        self.barrier();
        EXPECT_EQ(self.receive(0, 64), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
      });
}

// Each message has all its retries: what the first one used up is not missing to the second.
TEST_P(Retries, AreCountedForEachMessage) {
  play(
      {.rnr_retries = 6, .rnr_timer = kTimerCode},
      [](Endpoint& self) {
        for (int round = 0; round < 3; ++round) {
          EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
          EXPECT_TRUE(self.quiet());  // 20 ms, two tries
          self.barrier();
          EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
          self.barrier();
        }
      },
      [](Endpoint& self) {
        for (int round = 0; round < 3; ++round) {
          self.barrier();
          EXPECT_EQ(self.receive(0, 64), 0);
          EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
          self.barrier();
        }
      });
}

TEST_P(Retries, OfAWriteWithImmediateNeedAReceive) {
  play(
      {.rnr_retries = 1, .rnr_timer = kTimerCode},
      [](Endpoint& self) {
        EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE_WITH_IMM, 8)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_RNR_RETRY_EXC_ERR);
      },
      [](Endpoint& self) { EXPECT_TRUE(self.quiet()); });
}

// 4.096 us * 2^14 = 67 ms each, the first try and every retry.
constexpr uint8_t kTimeoutCode = 14;
constexpr duration<double> kTimeout(0.067108864);

void no_answer(Players players, uint8_t retries) {
  conformance::play(
      players, {.timeout = kTimeoutCode, .retries = retries},
      [=](Endpoint& self) {
        self.barrier();
        expect_failure(self, IBV_WC_RETRY_EXC_ERR, (retries + 1) * kTimeout);
        self.barrier();
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.move(IBV_QPS_RESET), 0);
        self.barrier();
        self.barrier();
      });
}
TEST_P(Retries, OfAPeerThatIsResetAreNone) { no_answer(GetParam(), 0); }
TEST_P(Retries, OfAPeerThatIsResetAreThree) { no_answer(GetParam(), 3); }

TEST(UnansweredRequests, FailWhereNobodyIs) {
  Endpoint self({.timeout = 10, .retries = 1});
  Contact nobody = self.contact();
  nobody.qpn = 0x00fffe;
  EXPECT_EQ(self.connect(nobody), 0);
  EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 8)), 0);
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(wc.vendor_err, 0x81u);
}

TEST(UnansweredRequests, OfUnreliableTransportsSucceed) {
  for (const ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_UD}) {
    Endpoint self({.type = type});
    Contact nobody = self.contact();
    nobody.qpn = 0x00fffe;
    EXPECT_EQ(self.connect(nobody), 0);
    EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
    EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  }
}

TEST(UnansweredRequests, WaitForEverWithoutATimeout) {
  Pair pair({.timeout = 0, .retries = 1});
  const Contact peer = pair.right.peer;
  EXPECT_EQ(pair.right.move(IBV_QPS_RESET), 0);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_RDMA_WRITE, 8)), 0);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(pair.left.quiet());
  EXPECT_EQ(pair.right.connect(peer), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbatim::conformance
