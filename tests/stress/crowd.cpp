// SPDX-License-Identifier: MIT
// Many processes, each connected with each other one: everybody writes to and sends to everybody, and looks
// at what came.
// usage: stress_crowd [--processes N] [--rounds N]
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/stress/rig.h"

using namespace verbatim::stress;

namespace {

constexpr uint32_t kProcessesMax = 128;
constexpr size_t kBytes = 2048;  ///< of a message: two packets
constexpr uint64_t kPatienceNs = 240 * kSecondNs;

/// What all processes see.
struct Meeting {
  pthread_barrier_t barrier;
  struct Place {
    Address from[kProcessesMax];  ///< its queue pair for each of the others
    uint64_t memory;
    uint32_t key;
  } places[kProcessesMax];
};

/// Word `at` of what `from` sends to `to` in a round.
uint64_t word(uint32_t from, uint32_t to, uint32_t round, size_t at, bool send) {
  return (uint64_t{from} << 48 | uint64_t{to} << 32 | round << 16 | at) ^ (send ? 0x5a5a5a5a5a5a5a5a : 0);
}

class Member {
 public:
  Member(Meeting& meeting, uint32_t self, uint32_t count)
      : meeting_(meeting), self_(self), count_(count), device_(open_device()) {
    require(cq_ = ibv_create_cq(device_.context, static_cast<int>(4 * count), nullptr, nullptr, 0),
            "ibv_create_cq");
    memory_ = map_memory(kAreas * count * kBytes);
    region_ = ibv_reg_mr(device_.pd, memory_, kAreas * count * kBytes,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    require(region_, "ibv_reg_mr");
    queue_pairs_.resize(count);
    Meeting::Place& mine = meeting.places[self];
    mine.memory = reinterpret_cast<uint64_t>(memory_);
    mine.key = region_->rkey;
    for (uint32_t peer = 0; peer < count; peer++) {
      queue_pairs_[peer] = make_qp(device_, cq_, cq_, {4, 4, 1, 0});
      mine.from[peer] = address_of(device_, queue_pairs_[peer]);
    }
    meet();
    for (uint32_t peer = 0; peer < count; peer++)
      require(connect_qp(queue_pairs_[peer], mine.from[peer], meeting.places[peer].from[self], {20, 7, 7, 1}),
              "connect_qp");
  }

  ~Member() {
    meet();  // nobody sends to who has gone
    for (ibv_qp* qp : queue_pairs_) require(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
    require(ibv_dereg_mr(region_) == 0 && ibv_destroy_cq(cq_) == 0, "ibv_destroy_cq");
    close_device(device_);
  }

  void round(uint32_t number) {
    for (uint32_t peer = 0; peer < count_; peer++) post_receive(peer);
    meet();
    for (uint32_t peer = 0; peer < count_; peer++) {
      fill(peer, number);
      post(peer, IBV_WR_RDMA_WRITE, kWritten);
      post(peer, IBV_WR_SEND, kSent);
    }
    uint32_t left = 3 * count_;  // a write, a send and a receive for each
    const uint64_t began = now_ns();
    while (left > 0) {
      ibv_wc done[16];
      const int found = ibv_poll_cq(cq_, 16, done);
      for (int i = 0; i < found; i++)
        if (done[i].status != IBV_WC_SUCCESS)
          fail("member %u, peer %lu: %s", self_, done[i].wr_id, ibv_wc_status_str(done[i].status));
      left -= static_cast<uint32_t>(found > 0 ? found : 0);
      if (now_ns() - began > kPatienceNs) fail("member %u: %u completions are missing", self_, left);
    }
    meet();
    for (uint32_t peer = 0; peer < count_; peer++) look(peer, number);
  }

 private:
  /// Parts of the memory, each with a place for every peer.
  enum Area : size_t { kWritten, kSent, kHere, kReceived, kAreas };
  size_t place(Area area, uint32_t peer) const { return (area * count_ + peer) * kBytes; }
  uint64_t* words(Area area, uint32_t peer) {
    return reinterpret_cast<uint64_t*>(memory_ + place(area, peer));
  }
  void meet() { pthread_barrier_wait(&meeting_.barrier); }

  void fill(uint32_t peer, uint32_t round) {
    for (size_t at = 0; at < kBytes / 8; at++) {
      words(kWritten, peer)[at] = word(self_, peer, round, at, false);
      words(kSent, peer)[at] = word(self_, peer, round, at, true);
    }
  }
  void look(uint32_t peer, uint32_t round) {
    for (size_t at = 0; at < kBytes / 8; at++)
      if (words(kHere, peer)[at] != word(peer, self_, round, at, false) ||
          words(kReceived, peer)[at] != word(peer, self_, round, at, true))
        fail("member %u: word %zu of peer %u is wrong in round %u", self_, at, peer, round);
  }
  void post_receive(uint32_t peer) {
    ibv_sge piece{mine() + place(kReceived, peer), kBytes, region_->lkey};
    ibv_recv_wr work{}, *bad = nullptr;
    work.wr_id = peer;
    work.sg_list = &piece;
    work.num_sge = 1;
    require(ibv_post_recv(queue_pairs_[peer], &work, &bad) == 0, "ibv_post_recv");
  }
  void post(uint32_t peer, ibv_wr_opcode opcode, Area from) {
    ibv_sge piece{mine() + place(from, peer), kBytes, region_->lkey};
    ibv_send_wr work{}, *bad = nullptr;
    work.wr_id = peer;
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = opcode;
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.rdma.remote_addr = meeting_.places[peer].memory + place(kHere, self_);
    work.wr.rdma.rkey = meeting_.places[peer].key;
    require(ibv_post_send(queue_pairs_[peer], &work, &bad) == 0, "ibv_post_send");
  }
  uint64_t mine() const { return reinterpret_cast<uint64_t>(memory_); }

  Meeting& meeting_;
  const uint32_t self_, count_;
  Device device_;
  ibv_cq* cq_ = nullptr;
  std::byte* memory_ = nullptr;
  ibv_mr* region_ = nullptr;
  std::vector<ibv_qp*> queue_pairs_;
};

uint32_t number_after(int argc, char** argv, const char* option, uint32_t otherwise) {
  for (int i = 1; i + 1 < argc; i++)
    if (std::strcmp(argv[i], option) == 0) return static_cast<uint32_t>(std::atoi(argv[i + 1]));
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const uint32_t processes = number_after(argc, argv, "--processes", 12);
  const uint32_t rounds = number_after(argc, argv, "--rounds", 3);
  if (processes < 1 || processes > kProcessesMax) fail("from 1 to %u processes", kProcessesMax);
  use_private_agent("crowd");
  void* shared = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(shared != MAP_FAILED, "mmap");
  auto& meeting = *static_cast<Meeting*>(shared);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  require(pthread_barrier_init(&meeting.barrier, &attributes, processes) == 0, "pthread_barrier_init");

  const uint64_t began = now_ns();
  std::vector<pid_t> members;
  for (uint32_t self = 0; self < processes; self++) {
    const pid_t member = fork();
    require(member >= 0, "fork");
    if (member == 0) {
      {
        Member work(meeting, self, processes);
        for (uint32_t round = 0; round < rounds; round++) work.round(round);
      }
      _exit(0);
    }
    members.push_back(member);
  }
  bool well = true;
  for (size_t ended = 0; ended < members.size(); ended++) {
    int status = 0;
    require(wait(&status) > 0, "wait");
    if (status == 0 || !well) continue;
    well = false;
    for (const pid_t member : members) kill(member, SIGKILL);  // they would wait for it
  }
  if (!well) fail("a member failed");
  std::printf("%u processes, %u connections, %u rounds: %.1f s\n", processes, processes * processes, rounds,
              static_cast<double>(now_ns() - began) / 1e9);
  return 0;
}
