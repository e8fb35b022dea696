// SPDX-License-Identifier: MIT
// A receiver of one process that takes messages for shared receive queues of another: the domain is a file's.
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "tests/conformance/printed.h"
#include "tests/conformance/xrc_ends.h"

namespace verbatim::conformance {
namespace {

constexpr size_t kFar = 16 * 1024;  ///< offset in the buffer of the queue's process
const auto kSend = [](ibv_qp_ex* ex) { ibv_wr_send(ex); };

/// What the three processes tell each other, and where they wait for each other.
struct Table {
  pthread_barrier_t barrier;
  uint32_t sender, receiver, own_queue, queue, rkey;
  uint64_t address;
  std::atomic<bool> refused;  ///< for want of receives
  void meet() { pthread_barrier_wait(&barrier); }
};

struct Roles {
  std::function<void(Endpoint&, Table&, ibv_qp* sender)> send;
  std::function<void(Endpoint&, Table&, ibv_srq* own)> receive;  ///< of the receiver's process
  std::function<void(Endpoint&, Table&, ibv_srq* srq)> take;     ///< of the queue's process
};

void play_sender(const Roles& roles, Table& table) {
  Endpoint self;
  ibv_qp* qp = make_sender(self);
  table.sender = qp->qp_num;
  table.meet();
  connect_xrc(qp, table.receiver, self.contact());
  table.meet();
  roles.send(self, table, qp);
  table.meet();
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

void play_receiver(const Roles& roles, Table& table, int fd) {
  Endpoint self;
  ibv_xrcd* domain = open_domain(self.context, fd);
  ibv_srq* own = make_shared(self, domain);
  ibv_qp* qp = make_receiver(self.context, domain);
  table.receiver = qp->qp_num;
  table.own_queue = number_of(own);
  table.meet();
  connect_xrc(qp, table.sender, self.contact());
  table.meet();
  roles.receive(self, table, own);
  table.meet();
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(own), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

void play_queue(const Roles& roles, Table& table, int fd) {
  Endpoint self;
  ibv_xrcd* domain = open_domain(self.context, fd);
  ibv_srq* srq = make_shared(self, domain);
  table.queue = number_of(srq);
  table.rkey = self.mr->rkey;
  table.address = reinterpret_cast<uint64_t>(self.buffer.data());
  table.meet();
  table.meet();
  roles.take(self, table, srq);
  table.meet();
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

void play_three(const Roles& roles) {
  std::FILE* file = std::tmpfile();
  const int fd = fileno(file);
  auto* table = static_cast<Table*>(
      mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&table->barrier, &shared, 3);
  std::fflush(nullptr);
  const std::function<void()> parts[] = {[&] { play_sender(roles, *table); },
                                         [&] { play_receiver(roles, *table, fd); },
                                         [&] { play_queue(roles, *table, fd); }};
  pid_t children[3];
  for (int i = 0; i < 3; i++) {
    children[i] = fork();
    if (children[i] != 0) continue;
    alarm(30);
    parts[i]();
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "one of the processes failed";
  }
  munmap(table, sizeof *table);
  std::fclose(file);
}

void expect_done(const Endpoint& self, uint64_t id) {
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << "of " << id;
  EXPECT_EQ(wc.wr_id, id);
}

void expect_message(const Endpoint& self, const Table& table, uint64_t id, uint32_t bytes) {
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << "of " << id;
  EXPECT_EQ(wc.wr_id, id);
  EXPECT_EQ(wc.byte_len, bytes);
  EXPECT_EQ(wc.qp_num, table.receiver);
  EXPECT_EQ(wc.src_qp, table.sender);
}

TEST(XrcProcesses, ReachQueuesOfOthers) {
  play_three(
      {[](Endpoint& self, Table& table, ibv_qp* qp) {
         const uint32_t rkey = table.rkey, queue = table.queue;
         const uint64_t there = table.address + kFar;
         fill(self, 0, 30'000, 5);
         EXPECT_EQ(post_xrc(self, qp, 1, queue, kSend, 100), 0);
         EXPECT_EQ(post_xrc(self, qp, 2, queue, kSend, 30'000), 0);
         EXPECT_EQ(
             post_xrc(
                 self, qp, 3, queue, [=](ibv_qp_ex* ex) { ibv_wr_rdma_write(ex, rkey, there); }, 20'000),
             0);
         EXPECT_EQ(post_xrc(
                       self, qp, 4, queue,
                       [=](ibv_qp_ex* ex) { ibv_wr_rdma_write_imm(ex, rkey, there, htonl(9)); }, 10'000),
                   0);
         EXPECT_EQ(post_xrc(
                       self, qp, 5, queue, [=](ibv_qp_ex* ex) { ibv_wr_rdma_read(ex, rkey, there); }, 20'000,
                       40'000),
                   0);
         for (uint64_t id = 1; id <= 5; id++) expect_done(self, id);
         EXPECT_TRUE(holds(self, 40'000, 20'000, 5));
         EXPECT_EQ(post_xrc(
                       self, qp, 6, queue,
                       [=](ibv_qp_ex* ex) { ibv_wr_atomic_fetch_add(ex, rkey, there, 3); }, 8, 40'000),
                   0);
         expect_done(self, 6);
         EXPECT_EQ(word(self, 40'000), word(self, 0));
         const uint64_t value = 77;
         EXPECT_EQ(post_xrc(
                       self, qp, 7, queue,
                       [=](ibv_qp_ex* ex) { ibv_wr_atomic_write(ex, rkey, there + 8, &value); }, 0),
                   0);
         expect_done(self, 7);
       },
       [](Endpoint&, Table&, ibv_srq*) {},
       [](Endpoint& self, Table& table, ibv_srq* srq) {
         for (uint64_t id = 1; id <= 3; id++) EXPECT_EQ(receive_shared(self, srq, 0, 30'000, id), 0);
         expect_message(self, table, 1, 100);
         expect_message(self, table, 2, 30'000);
         EXPECT_TRUE(holds(self, 0, kFar, 5));
         expect_message(self, table, 3, 10'000);
         EXPECT_TRUE(holds(self, kFar + 16, 9'000, static_cast<uint8_t>(5 + 16 * 7)));
       }});
}

/// How often requests of this process have met an empty queue.
uint64_t refusals() {
  uint64_t count = 0;
  const auto self = shown_of_self();
  for (const auto& qp : self["queue_pairs"]) count += qp["rnr_naks"].get<uint64_t>();
  return count;
}

/// Waits until a condition holds.
template <class Condition>
bool comes_true(Condition condition) {
  for (int look = 0; look < 3000; look++) {
    if (condition()) return true;
    usleep(1000);
  }
  return false;
}

// Messages of one connection for queues of two processes, posted all at once, arrive in their order each; and
// wait for queues that are empty.
TEST(XrcProcesses, TakeTurns) {
  constexpr uint64_t kCount = 30;
  const auto take = [](Endpoint& self, Table& table, ibv_srq* srq, uint64_t first) {
    uint64_t posted = first;
    EXPECT_TRUE(comes_true([&] { return table.refused.load(); }));
    for (uint64_t id = first; id < kCount; id += 2) {
      if (id == posted) {  // a few at a time
        for (int i = 0; i < 4 && posted < kCount; i++, posted += 2)
          EXPECT_EQ(receive_shared(self, srq, posted * 1000, 1000, posted), 0);
      }
      expect_message(self, table, id, 1000);
      EXPECT_TRUE(holds(self, id * 1000, 1000, static_cast<uint8_t>(id)));
    }
  };
  play_three({[](Endpoint& self, Table& table, ibv_qp* qp) {
                for (uint64_t id = 0; id < kCount; id++) {
                  fill(self, id * 1000, 1000, static_cast<uint8_t>(id));
                  const uint32_t queue = id % 2 == 0 ? table.own_queue : table.queue;
                  EXPECT_EQ(post_xrc(self, qp, id, queue, kSend, 1000, id * 1000), 0);
                }
                EXPECT_TRUE(comes_true([] { return refusals() > 0; }));
                table.refused = true;
                for (uint64_t id = 0; id < kCount; id++) expect_done(self, id);
              },
              [&](Endpoint& self, Table& table, ibv_srq* own) { take(self, table, own, 0); },
              [&](Endpoint& self, Table& table, ibv_srq* srq) { take(self, table, srq, 1); }});
}

// What the queue's process refuses ends the connection as if the receiver's process had.
TEST(XrcProcesses, RefuseForEachOther) {
  play_three({[](Endpoint& self, Table& table, ibv_qp* qp) {
                const uint32_t wrong = table.rkey ^ 0x5500;
                const uint64_t there = table.address;
                EXPECT_EQ(post_xrc(self, qp, 1, table.queue, kSend, 100), 0);
                expect_done(self, 1);
                EXPECT_EQ(post_xrc(
                              self, qp, 2, table.queue,
                              [=](ibv_qp_ex* ex) { ibv_wr_rdma_write(ex, wrong, there); }, 100),
                          0);
                EXPECT_EQ(self.wait_status(), IBV_WC_REM_ACCESS_ERR);
                EXPECT_EQ(state_of(qp), IBV_QPS_ERR);
              },
              [](Endpoint& self, Table&, ibv_srq*) {
                EXPECT_EQ(self.next_event(), IBV_EVENT_QP_ACCESS_ERR);
                EXPECT_EQ(self.next_event(), IBV_EVENT_QP_LAST_WQE_REACHED);
              },
              [](Endpoint& self, Table& table, ibv_srq* srq) {
                EXPECT_EQ(receive_shared(self, srq, 0, 1000, 1), 0);
                expect_message(self, table, 1, 100);
              }});
}

}  // namespace
}  // namespace verbatim::conformance
