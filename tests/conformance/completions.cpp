// SPDX-License-Identifier: MIT
// Completion queues: reading, arming, resizing, overrunning.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

class ExtendedReaders : public Played {};
VERBATIM_PLAY_BOTH_WAYS(ExtendedReaders);

constexpr uint64_t kEveryField = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                 IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG |
                                 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

uint64_t wall_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

/// Starts to poll when there is a completion; false after five seconds without one.
bool start(Endpoint& self) {
  ibv_poll_cq_attr nothing{};
  for (const uint64_t end = wall_ns() + 5'000'000'000u; wall_ns() < end;)
    if (const int got = ibv_start_poll(self.extended_cq(), &nothing); got != ENOENT) return got == 0;
  return false;
}

/// What comes of the port: an Ethernet one has no LID, and none has VLANs and flows here.
void expect_fields_of_port(const Endpoint& self, ibv_cq_ex* cq) {
  EXPECT_EQ(ibv_wc_read_slid(cq), self.peer.lid);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq), 0);
  EXPECT_EQ(ibv_wc_read_cvlan(cq), 0);
  EXPECT_EQ(ibv_wc_read_flow_tag(cq), 0u);
}

TEST_P(ExtendedReaders, OfMessages) {
  play(
      {.cq_fields = kEveryField},
      [](Endpoint& self) {
        self.barrier();
        ibv_send_wr wr = self.request(IBV_WR_SEND_WITH_IMM, 24);
        wr.imm_data = htonl(99);
        EXPECT_EQ(self.post(wr), 0);
        ASSERT_TRUE(start(self));
        ibv_cq_ex* cq = self.extended_cq();
        EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
        EXPECT_EQ(cq->wr_id, 100u);
        EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_SEND);
        EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0u);
        EXPECT_EQ(ibv_wc_read_wc_flags(cq), 0u);
        EXPECT_EQ(ibv_wc_read_qp_num(cq), self.qp->qp_num);
        EXPECT_EQ(ibv_next_poll(cq), ENOENT);
        ibv_end_poll(cq);
      },
      [](Endpoint& self) {
        const uint64_t before = wall_ns();
        EXPECT_EQ(self.receive(0, 64, 9), 0);
        self.barrier();
        ASSERT_TRUE(start(self));
        ibv_cq_ex* cq = self.extended_cq();
        EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
        EXPECT_EQ(cq->wr_id, 9u);
        EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
        EXPECT_EQ(ibv_wc_read_byte_len(cq), 24u);
        EXPECT_EQ(ibv_wc_read_imm_data(cq), htonl(99));
        EXPECT_EQ(ibv_wc_read_qp_num(cq), self.qp->qp_num);
        EXPECT_EQ(ibv_wc_read_wc_flags(cq), static_cast<unsigned>(IBV_WC_WITH_IMM));
        EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0u);
        EXPECT_EQ(ibv_wc_read_sl(cq), 0);
        expect_fields_of_port(self, cq);
        const uint64_t at = ibv_wc_read_completion_wallclock_ns(cq);
        EXPECT_GE(at + 1'000'000, before) << "a millisecond for the two clocks' drift";
        EXPECT_LE(at, wall_ns() + 1'000'000);
        EXPECT_EQ(ibv_next_poll(cq), ENOENT);
        ibv_end_poll(cq);
      });
}

TEST_P(ExtendedReaders, OfDatagrams) {
  play(
      {.type = IBV_QPT_UD, .cq_fields = kEveryField},
      [](Endpoint& self) {
        self.barrier();
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 32)), 0);
        ASSERT_TRUE(start(self));
        ibv_end_poll(self.extended_cq());
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(0, 128, 9), 0);
        self.barrier();
        ASSERT_TRUE(start(self));
        ibv_cq_ex* cq = self.extended_cq();
        EXPECT_EQ(ibv_wc_read_byte_len(cq), 72u);
        EXPECT_EQ(ibv_wc_read_src_qp(cq), self.peer.qpn);
        EXPECT_EQ(ibv_wc_read_wc_flags(cq), self.peer.lid == 0 ? static_cast<unsigned>(IBV_WC_GRH) : 0u);
        expect_fields_of_port(self, cq);
        ibv_end_poll(cq);
      });
}

TEST_P(ExtendedReaders, OfReadsAtomicsAndErrors) {
  play(
      {.cq_fields = kEveryField},
      [](Endpoint& self) {
        EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_READ, 512)), 0);
        EXPECT_EQ(self.post(self.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8)), 0);
        constexpr ibv_wc_opcode kOpcodes[] = {IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD};
        constexpr uint32_t kBytes[] = {512, 8};
        ibv_cq_ex* cq = self.extended_cq();
        uint64_t last = 0;
        for (int i = 0; i < 2; ++i) {
          ASSERT_TRUE(start(self));
          EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
          EXPECT_EQ(ibv_wc_read_opcode(cq), kOpcodes[i]);
          EXPECT_EQ(ibv_wc_read_byte_len(cq), kBytes[i]);
          EXPECT_GT(ibv_wc_read_completion_ts(cq), last);
          last = ibv_wc_read_completion_ts(cq);
          ibv_end_poll(cq);
        }
        ibv_send_wr refused = self.request(IBV_WR_RDMA_WRITE, 8);
        refused.wr.rdma.rkey ^= 0xff;
        EXPECT_EQ(self.post(refused), 0);
        ASSERT_TRUE(start(self));
        EXPECT_EQ(cq->status, IBV_WC_REM_ACCESS_ERR);
        EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0x88u);
        EXPECT_EQ(ibv_wc_read_qp_num(cq), self.qp->qp_num);
        ibv_end_poll(cq);
      },
      [](Endpoint&) {});
}

TEST(ExtendedQueues, GoOnWhileABatchIsRead) {
  Pair pair({.cq_fields = kEveryField});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_RDMA_WRITE, 8)), 0);
  ASSERT_TRUE(start(pair.left));
  int read = 1;
  while (ibv_next_poll(pair.left.extended_cq()) == 0) ++read;
  ibv_end_poll(pair.left.extended_cq());
  EXPECT_EQ(read, 5);
  ibv_poll_cq_attr nothing{}, unknown{1};
  EXPECT_EQ(ibv_start_poll(pair.left.extended_cq(), &nothing), ENOENT);
  EXPECT_EQ(ibv_start_poll(pair.left.extended_cq(), &unknown), EINVAL);
}

TEST(ExtendedQueues, HaveOnlyTheFieldsThereAre) {
  ibv_context* context = open_first();
  const auto make = [context](auto change) {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = 16;
    change(attributes);
    ibv_cq_ex* cq = ibv_create_cq_ex(context, &attributes);
    if (cq == nullptr) return errno;
    EXPECT_GE(cq->cqe, 16);
    return ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
  };
  using Attributes = ibv_cq_init_attr_ex;
  EXPECT_EQ(make([](Attributes& a) { a.wc_flags = kEveryField; }), 0);
  EXPECT_EQ(make([](Attributes& a) { a.wc_flags = IBV_WC_EX_WITH_TM_INFO; }), 0);
  EXPECT_EQ(make([](Attributes& a) { a.wc_flags = uint64_t{1} << 40; }), EOPNOTSUPP);
  EXPECT_EQ(make([](Attributes& a) { a.comp_vector = 1u << 20; }), EINVAL);
  EXPECT_EQ(make([](Attributes& a) { a.comp_mask = 1u << 30; }), EINVAL);
  EXPECT_EQ(make([](Attributes& a) { a.cqe = UINT32_MAX; }), EINVAL);
  EXPECT_EQ(make([](Attributes& a) { a.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, a.flags = 1u << 20; }),
            EINVAL);
  EXPECT_EQ(ibv_create_cq(context, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context, -1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Overrun, EndsTheQueueAndItsQueuePairs) {
  Pair pair({.cq_entries = 4});
  Endpoint& self = pair.left;
  const int entries = self.cq->cqe + 1;
  for (int i = 0; i < entries; ++i) EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 8)), 0);
  EXPECT_TRUE(self.no_event());
  EXPECT_EQ(self.state(), IBV_QPS_RTS);
  EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 8)), 0);
  EXPECT_EQ(self.next_event(), IBV_EVENT_CQ_ERR);
  ibv_wc wc{};
  for (int i = 0; i < entries; ++i) EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS) << "what fitted is there";
  EXPECT_EQ(ibv_poll_cq(self.cq, 1, &wc), 0);
  EXPECT_EQ(self.next_event(), IBV_EVENT_QP_FATAL);
  EXPECT_EQ(self.state(), IBV_QPS_ERR);
}

TEST(Overrun, IsIgnoredOnRequest) {
  Pair pair({.cq_entries = 4, .cq_flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN});
  Endpoint& self = pair.left;
  const int entries = self.cq->cqe + 1;
  for (int i = 0; i < 3 * entries; ++i) EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 8)), 0);
  EXPECT_TRUE(self.no_event());
  EXPECT_EQ(self.state(), IBV_QPS_RTS);
}

TEST(Resizing, KeepsWhatWaits) {
  Pair pair;
  Endpoint& self = pair.left;
  uint64_t posted = 0, read = 0;
  const auto post = [&](int count) {
    for (int i = 0; i < count; ++i) {
      ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, 8);
      wr.wr_id = posted++;
      ASSERT_EQ(self.post(wr), 0);
    }
  };
  for (const int size : {1000, 60, 4000, 40, 300, 45}) {
    post(30);
    for (int i = 0; i < 10; ++i) ASSERT_EQ(self.wait().wr_id, read++);
    EXPECT_EQ(ibv_resize_cq(self.cq, size), 0);
    EXPECT_GE(self.cq->cqe, size);
    while (read < posted) ASSERT_EQ(self.wait().wr_id, read++);
  }
  post(30);
  const int before = self.cq->cqe;
  EXPECT_EQ(ibv_resize_cq(self.cq, 8), EINVAL) << "30 wait";
  EXPECT_EQ(ibv_resize_cq(self.cq, 0), EINVAL);
  EXPECT_EQ(ibv_resize_cq(self.cq, -1), EINVAL);
  ibv_device_attr device{};
  EXPECT_EQ(ibv_query_device(self.context, &device), 0);
  EXPECT_EQ(ibv_resize_cq(self.cq, device.max_cqe + 1), EINVAL);
  EXPECT_EQ(self.cq->cqe, before);
  while (read < posted) ASSERT_EQ(self.wait().wr_id, read++);
}

TEST(Resizing, LosesNothingOfTheTraffic) {
  Pair pair;
  Endpoint& self = pair.left;
  std::atomic<bool> stop{false};
  std::thread resizer([&] {
    for (int i = 0; !stop; ++i) {
      EXPECT_EQ(ibv_resize_cq(self.cq, i % 2 == 0 ? 100 : 1000), 0);
      std::this_thread::yield();
    }
  });
  uint64_t posted = 0;
  for (uint64_t read = 0; read < 20000 && !testing::Test::HasFailure();) {
    for (; posted < read + 50 && posted < 20000; ++posted) {
      ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, 8);
      wr.wr_id = posted;
      if (self.post(wr) != 0) break;
    }
    EXPECT_EQ(self.wait().wr_id, read++);
  }
  stop = true;
  resizer.join();
  EXPECT_TRUE(self.quiet());
}

TEST(Arming, WakesForSolicitedOnesOnly) {
  Pair pair({.channel = true});
  EXPECT_EQ(fcntl(pair.right.channel->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(pair.right.channel, &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(ibv_req_notify_cq(pair.right.cq, 1), 0);
  EXPECT_EQ(pair.right.receive(0, 64), 0);
  EXPECT_EQ(pair.right.receive(0, 64), 0);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 8)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  pollfd wait{pair.right.channel->fd, POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, 50), 0) << "not solicited";
  ibv_send_wr solicited = pair.left.request(IBV_WR_SEND, 8);
  solicited.send_flags |= IBV_SEND_SOLICITED;
  EXPECT_EQ(pair.left.post(solicited), 0);
  EXPECT_EQ(poll(&wait, 1, 5000), 1);
  EXPECT_EQ(ibv_get_cq_event(pair.right.channel, &cq, &context), 0);
  EXPECT_EQ(cq, pair.right.cq);
  EXPECT_EQ(context, &pair.right);
  ibv_ack_cq_events(cq, 1);
}

TEST(Arming, WakesForErrors) {
  Pair pair({.channel = true});
  EXPECT_EQ(pair.right.receive(0, 64), 0);
  EXPECT_EQ(ibv_req_notify_cq(pair.right.cq, 1), 0);
  // Everything in this process has gone to sleep by then.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(pair.right.move(IBV_QPS_ERR), 0);
  pollfd wait{pair.right.channel->fd, POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, 5000), 1);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(pair.right.channel, &cq, &context), 0);
  ibv_ack_cq_events(cq, 1);
}

/// Arms the left queue, completes one write, and says whether that raised the event within 200 ms.
bool wakes_for_one(Pair& pair) {
  EXPECT_EQ(ibv_req_notify_cq(pair.left.cq, 0), 0);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_RDMA_WRITE, 8)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  pollfd wait{pair.left.channel->fd, POLLIN, 0};
  if (poll(&wait, 1, 200) != 1) return false;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(pair.left.channel, &cq, &context), 0);
  ibv_ack_cq_events(cq, 1);
  return true;
}

// The period bounds how long the count may hold an event back; either one being 0 turns moderation off.
TEST(Moderation, NeverHoldsAnEventForEver) {
  Pair pair({.channel = true});
  ibv_modify_cq_attr attributes{};
  attributes.attr_mask = IBV_CQ_ATTR_MODERATE;
  for (const ibv_moderate_cq moderation : {ibv_moderate_cq{4, 1000}, {0, 1000}, {100, 0}, {0, 0}}) {
    attributes.moderate = moderation;
    EXPECT_EQ(ibv_modify_cq(pair.left.cq, &attributes), 0);
    EXPECT_TRUE(wakes_for_one(pair)) << moderation.cq_count << " " << moderation.cq_period;
  }
}

/// Completes so many writes of the left queue; whether the event is there then.
bool is_told_after(Pair& pair, int writes) {
  for (int i = 0; i < writes; i++) {
    EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_RDMA_WRITE, 8)), 0);
    EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  }
  pollfd look{pair.left.channel->fd, POLLIN, 0};
  return poll(&look, 1, 0) == 1;
}

void take_event(Pair& pair) {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(pair.left.channel, &cq, &context), 0);
  EXPECT_EQ(cq, pair.left.cq);
  ibv_ack_cq_events(cq, 1);
}

std::chrono::microseconds since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - then);
}

TEST(Moderation, HoldsTheEventBackForThePeriod) {
  Pair pair({.channel = true});
  ibv_modify_cq_attr attributes{IBV_CQ_ATTR_MODERATE, {4, 4000}};
  EXPECT_EQ(ibv_modify_cq(pair.left.cq, &attributes), 0);
  for (int round = 0; round < 3; round++) {
    EXPECT_EQ(ibv_req_notify_cq(pair.left.cq, 0), 0);
    const auto began = std::chrono::steady_clock::now();
    (void)is_told_after(pair, 1);
    take_event(pair);
    EXPECT_GE(since(began).count(), 4000);
  }
}

// The fourth completion raises it at once, the third did not. A machine that is busy may take longer than the
// period for three.
TEST(Moderation, TellsWithTheLastOfTheCount) {
  Pair pair({.channel = true});
  ibv_modify_cq_attr attributes{IBV_CQ_ATTR_MODERATE, {4, 4000}};
  EXPECT_EQ(ibv_modify_cq(pair.left.cq, &attributes), 0);
  int in_time = 0;
  for (int round = 0; round < 100 && in_time < 3; round++) {
    EXPECT_EQ(ibv_req_notify_cq(pair.left.cq, 0), 0);
    const auto began = std::chrono::steady_clock::now();
    const bool early = is_told_after(pair, 3);
    if (early) {
      EXPECT_GE(since(began).count(), 4000);
    } else {
      EXPECT_TRUE(is_told_after(pair, 1));
      in_time += since(began).count() < 4000;
    }
    take_event(pair);
  }
  EXPECT_EQ(in_time, 3);
}

// Taking moderation away tells of what was held back.
TEST(Moderation, LosesNoEventWhenItChanges) {
  Pair pair({.channel = true});
  ibv_modify_cq_attr attributes{IBV_CQ_ATTR_MODERATE, {1000, 4000}};
  EXPECT_EQ(ibv_modify_cq(pair.left.cq, &attributes), 0);
  EXPECT_EQ(ibv_req_notify_cq(pair.left.cq, 0), 0);
  (void)is_told_after(pair, 2);
  attributes.moderate = {0, 0};
  EXPECT_EQ(ibv_modify_cq(pair.left.cq, &attributes), 0);
  pollfd look{pair.left.channel->fd, POLLIN, 0};
  EXPECT_EQ(poll(&look, 1, 0), 1);
  take_event(pair);
  EXPECT_EQ(ibv_req_notify_cq(pair.left.cq, 0), 0);
  EXPECT_TRUE(is_told_after(pair, 1));
  take_event(pair);
}

TEST(Moderation, HasLimits) {
  Pair pair;
  ibv_device_attr_ex device{};
  EXPECT_EQ(ibv_query_device_ex(pair.left.context, nullptr, &device), 0);
  ibv_modify_cq_attr attributes{};
  attributes.attr_mask = IBV_CQ_ATTR_MODERATE;
  attributes.moderate = {device.cq_mod_caps.max_cq_count, device.cq_mod_caps.max_cq_period};
  EXPECT_EQ(ibv_modify_cq(pair.left.cq, &attributes), 0);
  attributes.moderate.cq_period++;
  EXPECT_EQ(ibv_modify_cq(pair.left.cq, &attributes), EINVAL);
  attributes.attr_mask = 1u << 20;
  EXPECT_EQ(ibv_modify_cq(pair.left.cq, &attributes), EINVAL);
  attributes.attr_mask = 0;
  EXPECT_EQ(ibv_modify_cq(pair.left.cq, &attributes), 0);
}

}  // namespace
}  // namespace verbatim::conformance
