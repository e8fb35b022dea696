// SPDX-License-Identifier: MIT
// Threads that wait in ibv_get_cq_event.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

/// Sleeps until the next completion, and takes it.
ibv_wc sleep_for_one(Endpoint& self) {
  ibv_wc wc{};
  while (ibv_poll_cq(self.cq, 1, &wc) == 0) {
    EXPECT_EQ(ibv_req_notify_cq(self.cq, 0), 0);
    if (ibv_poll_cq(self.cq, 1, &wc) != 0) break;
    ibv_cq* from = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(self.channel, &from, &context) != 0) {
      ADD_FAILURE() << "errno " << errno;
      break;
    }
    ibv_ack_cq_events(from, 1);
  }
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  return wc;
}

constexpr int kTurns = 500;

// Its own send ends before the answer is there, always.
void ask(Endpoint& self) {
  for (int turn = 0; turn < kTurns && !testing::Test::HasFailure(); turn++) {
    EXPECT_EQ(self.receive(0, 64), 0);
    EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 16)), 0);
    EXPECT_EQ(sleep_for_one(self).opcode, IBV_WC_SEND);
    EXPECT_EQ(sleep_for_one(self).opcode, IBV_WC_RECV);
    if (turn == 0) self.barrier();
  }
}

void answer(Endpoint& self) {
  EXPECT_EQ(self.receive(0, 64), 0);
  for (int turn = 0; turn < kTurns && !testing::Test::HasFailure(); turn++) {
    EXPECT_EQ(sleep_for_one(self).opcode, IBV_WC_RECV);
    EXPECT_EQ(self.receive(0, 64), 0);
    EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 16)), 0);
    EXPECT_EQ(sleep_for_one(self).opcode, IBV_WC_SEND);
    if (turn == 0) self.barrier();
  }
}

// Of one process, who answers may be quicker than who asks and has yet to hear that he was heard.
TEST(WaitingProcess, SeesRequestsEndBeforeTheirAnswers) {
  play(Players::kTwoProcesses, {.channel = true, .timeout = 18, .rnr_retries = 7}, ask, answer);
}

std::atomic<int> handled{0};

/// A thread that waits for an event, and meets signals meanwhile.
class Sleeper {
 public:
  Sleeper(Endpoint& self, int flags) {
    struct sigaction action {};
    action.sa_handler = [](int) { handled++; };
    action.sa_flags = flags;
    handled = 0;
    EXPECT_EQ(sigaction(SIGUSR1, &action, &before_), 0);
    EXPECT_EQ(ibv_req_notify_cq(self.cq, 0), 0);
    thread_ = std::thread([this, &self] {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      const int result = ibv_get_cq_event(self.channel, &cq, &context);
      error_ = result == 0 ? 0 : errno;
      if (result == 0) ibv_ack_cq_events(cq, 1);
      done_ = true;
    });
  }
  ~Sleeper() {
    if (thread_.joinable()) thread_.join();
    sigaction(SIGUSR1, &before_, nullptr);
  }
  void disturb() {
    pthread_kill(thread_.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  bool done() const { return done_; }
  int error() {
    thread_.join();
    return error_;
  }

 private:
  struct sigaction before_ {};
  std::atomic<bool> done_{false};
  std::atomic<int> error_{0};
  std::thread thread_;
};

TEST(WaitingThread, IsInterruptedByASignal) {
  Pair pair({.channel = true});
  Sleeper sleeper(pair.right, 0);
  while (!sleeper.done()) sleeper.disturb();
  EXPECT_EQ(sleeper.error(), EINTR);
}

TEST(WaitingThread, GoesOnAfterSignalsThatLetIt) {
  Pair pair({.channel = true});
  EXPECT_EQ(pair.right.receive(0, 64), 0);
  Sleeper sleeper(pair.right, SA_RESTART);
  while (handled < 100) sleeper.disturb();
  EXPECT_FALSE(sleeper.done());
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 8)), 0);
  EXPECT_EQ(sleeper.error(), 0);
}

}  // namespace
}  // namespace verbatim::conformance
