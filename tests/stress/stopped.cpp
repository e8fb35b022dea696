// SPDX-License-Identifier: MIT
// A peer that is stopped while its ring is full: the sender waits without using the processor, and everything
// arrives when the peer goes on.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/stress/rig.h"

using namespace verbatim::stress;

namespace {

constexpr uint32_t kMessages = 128, kBytes = 4096;
constexpr uint64_t kCpuMaxNs =
    100 * kMillisecondNs;  ///< in one second; looking all the time would use all of it

struct End {
  explicit End(int socket) : device(open_device()) {
    require(cq = ibv_create_cq(device.context, 2 * kMessages, nullptr, nullptr, 0), "ibv_create_cq");
    qp = make_qp(device, cq, cq, {kMessages, kMessages, 1, 0});
    memory = map_memory(kBytes);
    require(region = ibv_reg_mr(device.pd, memory, kBytes, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
    const Address mine = address_of(device, qp);
    Address theirs;
    require(send_record(socket, mine) && receive_record(socket, theirs), "exchange of addresses");
    require(connect_qp(qp, mine, theirs), "connect_qp");
    ibv_sge piece{reinterpret_cast<uint64_t>(memory), kBytes, region->lkey};
    ibv_recv_wr work{}, *bad = nullptr;
    work.sg_list = &piece;
    work.num_sge = 1;
    for (uint32_t i = 0; i < kMessages; i++) require(ibv_post_recv(qp, &work, &bad) == 0, "ibv_post_recv");
    char ready = 1;
    require(send_record(socket, ready) && receive_record(socket, ready), "synchronise");
  }
  void send() {
    ibv_sge piece{reinterpret_cast<uint64_t>(memory), kBytes, region->lkey};
    ibv_send_wr work{}, *bad = nullptr;
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND;
    work.send_flags = IBV_SEND_SIGNALED;
    require(ibv_post_send(qp, &work, &bad) == 0, "ibv_post_send");
  }
  uint32_t take() {
    ibv_wc done;
    const int found = ibv_poll_cq(cq, 1, &done);
    if (found > 0 && done.status != IBV_WC_SUCCESS)
      fail("a completion says %s", ibv_wc_status_str(done.status));
    return found > 0;
  }

  Device device;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  std::byte* memory = nullptr;
  ibv_mr* region = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--peer") == 0) {
    End end(kParentSocket);
    for (uint32_t taken = 0; taken < kMessages;) taken += end.take();
    char done = 0;
    return receive_record(kParentSocket, done) ? 0 : 1;
  }
  use_private_agent("stopped");
  const Child peer = start_self("--peer");
  End end(peer.socket);
  require(kill(peer.pid, SIGSTOP) == 0, "SIGSTOP");
  int state = 0;
  require(waitpid(peer.pid, &state, WUNTRACED) == peer.pid && WIFSTOPPED(state), "the peer stops");
  for (uint32_t i = 0; i < kMessages; i++) end.send();
  usleep(50'000);  // what is under way comes to rest before the processor time is measured
  const uint64_t before = cpu_ns();
  sleep(1);
  const uint64_t used = cpu_ns() - before;
  require(kill(peer.pid, SIGCONT) == 0, "SIGCONT");
  uint32_t completed = 0;
  const uint64_t began = now_ns();
  while (completed < kMessages) {
    completed += end.take();
    if (now_ns() - began > 20 * kSecondNs) fail("only %u of %u messages have arrived", completed, kMessages);
  }
  const char done = 1;
  require(send_record(peer.socket, done), "farewell");
  if (reap(peer) != 0) fail("the peer failed");
  std::printf("stopped: %.1f ms of processor time in the second that the peer stood still\n",
              static_cast<double>(used) / 1e6);
  if (used > kCpuMaxNs) fail("the sender looks all the time for room that cannot come");
  return 0;
}
