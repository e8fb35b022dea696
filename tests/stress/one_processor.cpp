// SPDX-License-Identifier: MIT
// Two processes that spin on their completion queues, on one processor: a message and its answer take
// microseconds, not the time slices of both.
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/stress/rig.h"

using namespace verbatim::stress;

namespace {

constexpr uint32_t kRounds = 2000;
/// A time slice is 2 to 4 ms: waiting for two of them a round would take 8 s at least.
constexpr uint64_t kAllowedNs = 4 * kSecondNs;

void stay_on_one_processor() {
  cpu_set_t allowed, one;
  require(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &one);
  require(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

class Player {
 public:
  explicit Player(int socket) : device_(open_device()) {
    require(cq_ = ibv_create_cq(device_.context, 64, nullptr, nullptr, 0), "ibv_create_cq");
    qp_ = make_qp(device_, cq_, cq_);
    const Address mine = address_of(device_, qp_);
    Address theirs;
    require(send_record(socket, mine) && receive_record(socket, theirs), "exchange of addresses");
    require(connect_qp(qp_, mine, theirs), "connect_qp");
    receive();
    char ready = 1;
    require(send_record(socket, ready) && receive_record(socket, ready), "synchronise");
  }
  ~Player() {
    require(ibv_destroy_qp(qp_) == 0 && ibv_destroy_cq(cq_) == 0, "teardown");
    close_device(device_);
  }

  void send() {
    ibv_send_wr work{}, *bad = nullptr;
    work.opcode = IBV_WR_SEND;
    work.send_flags = IBV_SEND_SIGNALED;
    require(ibv_post_send(qp_, &work, &bad) == 0, "ibv_post_send");
    unsent_++;
  }
  void await_message() {
    for (bool arrived = false; !arrived;) {
      ibv_wc done;
      const int found = ibv_poll_cq(cq_, 1, &done);
      require(found >= 0, "ibv_poll_cq");
      if (found == 0) continue;
      if (done.status != IBV_WC_SUCCESS) fail("a completion says %s", ibv_wc_status_str(done.status));
      arrived = done.opcode == IBV_WC_RECV;
      if (!arrived) unsent_--;
    }
    receive();
  }
  void await_sends() {
    ibv_wc done;
    while (unsent_ > 0)
      if (ibv_poll_cq(cq_, 1, &done) == 1) unsent_--;
  }

 private:
  void receive() {
    ibv_recv_wr work{}, *bad = nullptr;
    require(ibv_post_recv(qp_, &work, &bad) == 0, "ibv_post_recv");
  }

  Device device_;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  uint32_t unsent_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  stay_on_one_processor();
  if (argc > 1 && std::strcmp(argv[1], "--peer") == 0) {
    Player player(kParentSocket);
    for (uint32_t i = 0; i < kRounds; i++) {
      player.await_message();
      player.send();
    }
    player.await_sends();
    return 0;
  }
  use_private_agent("one-processor");
  const Child peer = start_self("--peer");
  Player player(peer.socket);
  const uint64_t began = now_ns();
  for (uint32_t i = 0; i < kRounds; i++) {
    player.send();
    player.await_message();
  }
  const uint64_t taken = now_ns() - began;
  if (reap(peer) != 0) fail("the peer failed");
  std::printf("one processor: %u rounds in %.3f s\n", kRounds, static_cast<double>(taken) / 1e9);
  if (taken > kAllowedNs) fail("the two ends wait for each other's time slices");
  return 0;
}
