// SPDX-License-Identifier: MIT
// A process with 100 connected queue pairs and a thread blocked in ibv_get_cq_event uses next to no CPU: less
// than a thousandth of the time that passes. Then one message wakes the thread.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/stress/rig.h"

using namespace verbatim::stress;

namespace {

constexpr uint32_t kQueuePairs = 100;
constexpr uint64_t kShare = 1000;
constexpr uint64_t kSettleNs = 300 * kMillisecondNs;

/// One side: its queue pairs connected to the other's, and a thread that waits for a completion.
class Side {
 public:
  explicit Side(int socket) : device_(open_device()) {
    channel_ = ibv_create_comp_channel(device_.context);
    require(channel_, "ibv_create_comp_channel");
    cq_ = ibv_create_cq(device_.context, 256, nullptr, channel_, 0);
    require(cq_, "ibv_create_cq");
    std::vector<Address> mine(kQueuePairs), theirs(kQueuePairs);
    for (uint32_t i = 0; i < kQueuePairs; i++) {
      qps_.push_back(make_qp(device_, cq_, cq_));
      mine[i] = address_of(device_, qps_[i]);
    }
    require(send_all(socket, mine.data(), mine.size() * sizeof(Address)), "send");
    require(receive_all(socket, theirs.data(), theirs.size() * sizeof(Address)), "receive");
    for (uint32_t i = 0; i < kQueuePairs; i++) {
      require(connect_qp(qps_[i], mine[i], theirs[i]), "connect_qp");
      ibv_recv_wr work{}, *bad = nullptr;
      require(ibv_post_recv(qps_[i], &work, &bad) == 0, "ibv_post_recv");
    }
    char ready = 1;
    require(send_record(socket, ready) && receive_record(socket, ready), "synchronise");
  }

  void wait_for_event() {
    require(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
    ibv_wc done;
    while (ibv_poll_cq(cq_, 1, &done) == 0) {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      require(ibv_get_cq_event(channel_, &cq, &context) == 0, "ibv_get_cq_event");
      ibv_ack_cq_events(cq, 1);
      require(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
    }
    require(done.status == IBV_WC_SUCCESS, "completion");
  }

  void send_one() {
    ibv_send_wr work{}, *bad = nullptr;
    work.opcode = IBV_WR_SEND;
    work.send_flags = IBV_SEND_SIGNALED;
    require(ibv_post_send(qps_[0], &work, &bad) == 0, "ibv_post_send");
  }

  void measure(unsigned seconds, const char* who) const {
    usleep(kSettleNs / 1000);
    const uint64_t cpu = cpu_ns(), wall = now_ns();
    sleep(seconds);
    const uint64_t used = cpu_ns() - cpu, passed = now_ns() - wall;
    std::printf("%s: %.3f ms of CPU in %.2f s with %u queue pairs\n", who, static_cast<double>(used) / 1e6,
                static_cast<double>(passed) / 1e9, kQueuePairs);
    std::fflush(stdout);
    if (used * kShare > passed) fail("%s is not idle", who);
  }

 private:
  Device device_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::vector<ibv_qp*> qps_;
};

int run_peer(unsigned seconds) {
  Side side(kParentSocket);
  std::thread waiter([&] { side.wait_for_event(); });
  side.measure(seconds, "responder");
  char go = 1;
  require(send_record(kParentSocket, go), "send");
  waiter.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 3 && std::strcmp(argv[1], "--peer") == 0)
    return run_peer(static_cast<unsigned>(std::atoi(argv[2])));
  const char* seconds = argc >= 3 && std::strcmp(argv[1], "--seconds") == 0 ? argv[2] : "3";
  use_private_agent("idle");
  const Child peer = start_self("--peer", seconds);
  {
    Side side(peer.socket);
    std::thread blocked([&] { side.wait_for_event(); });
    side.measure(static_cast<unsigned>(std::atoi(seconds)), "requester");
    char go = 0;
    require(receive_record(peer.socket, go), "the peer failed");
    side.send_one();
    blocked.join();  // its completion is what the thread has waited for
    if (reap(peer) != 0) fail("the peer failed");
  }
  std::puts("idle: passed");
  return 0;
}
