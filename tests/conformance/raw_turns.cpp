// SPDX-License-Identifier: MIT
// Two programs that answer each other over raw queues, sometimes at once and sometimes after a while: each
// message is seen soon, whoever takes it in just then.
#include <infiniband/mlx5dv.h>

#include <chrono>
#include <thread>

#include "tests/conformance/players.h"
#include "tests/conformance/raw_queues.h"

namespace verbatim::conformance {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 4000;
constexpr uint32_t kBytes = 64;
constexpr auto kSoon = std::chrono::seconds(1);

class RawTurns : public Played {};
VERBATIM_PLAY_BOTH_WAYS(RawTurns);

/// One end of the conversation.
class Talker {
 public:
  explicit Talker(Endpoint& self) : raw_(self) {
    for (int i = 0; i < 16; i++) post_receive();
    self.barrier();
  }

  void send() { raw_.ring(raw_.put_send(kBytes, ++sent_ % 16 == 0)); }
  /// Returns when a message has come; false: none has for long.
  bool hear() {
    for (;;) {
      const mlx5_cqe64* cqe = raw_.next();
      if (cqe == nullptr) return false;
      if (mlx5dv_get_cqe_opcode(const_cast<mlx5_cqe64*>(cqe)) == MLX5_CQE_REQ) continue;
      EXPECT_EQ(be32toh(cqe->byte_cnt), kBytes);
      post_receive();
      return true;
    }
  }

 private:
  void post_receive() { raw_.receive(4096, kBytes); }

  RawQueues raw_;
  uint32_t sent_ = 0;
};

/// Now at once, now after a while: shorter and longer than a thread that has rung stays for an answer.
void hesitate(int round) {
  constexpr int kPausesUs[] = {0, 0, 0, 3, 0, 0, 40, 0, 250, 0, 0, 1500};
  if (round / 500 % 2 == 0) return;
  const auto until = Clock::now() + std::chrono::microseconds(kPausesUs[round % std::size(kPausesUs)]);
  while (Clock::now() < until) {
  }
}

TEST_P(RawTurns, AreTakenSoonWhateverThePace) {
  play(
      {},
      [](Endpoint& self) {
        Talker talker(self);
        for (int round = 0; round < kRounds; round++) {
          hesitate(round);
          const auto began = Clock::now();
          talker.send();
          ASSERT_TRUE(talker.hear()) << "round " << round;
          EXPECT_LT(Clock::now() - began, kSoon) << "round " << round;
        }
        self.barrier();
      },
      [](Endpoint& self) {
        Talker talker(self);
        for (int round = 0; round < kRounds; round++) {
          ASSERT_TRUE(talker.hear()) << "round " << round;
          hesitate(round + 7);
          talker.send();
        }
        self.barrier();
      });
}

}  // namespace
}  // namespace verbatim::conformance
