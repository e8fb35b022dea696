// SPDX-License-Identifier: MIT
// Extended reliable connections: every operation, what is refused, domains, receivers that are opened again.
#include <arpa/inet.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tests/conformance/initiating.h"
#include "tests/conformance/xrc_ends.h"

namespace verbatim::conformance {
namespace {

class Xrc : public Played {};
VERBATIM_PLAY_BOTH_WAYS(Xrc);

void expect_message(const XrcEnd& end, uint64_t id, ibv_wc_opcode opcode, uint32_t bytes,
                    int immediate = -1) {
  const ibv_wc wc = end.self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, id);
  EXPECT_EQ(wc.opcode, opcode);
  EXPECT_EQ(wc.byte_len, bytes);
  EXPECT_EQ(wc.qp_num, end.receiver->qp_num) << "the queue pair that received it";
  EXPECT_EQ(wc.src_qp, end.peer.sender);
  EXPECT_EQ((wc.wc_flags & IBV_WC_WITH_IMM) != 0, immediate >= 0);
  if (immediate >= 0) {
    EXPECT_EQ(wc.imm_data, htonl(static_cast<uint32_t>(immediate)));
  }
}

/// A number for the other player, which hears it once both have met.
constexpr size_t kTold = 128;
void tell(Endpoint& self, uint32_t number) { word(self, kTold) = number; }
uint32_t hear(Endpoint& self) {
  EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_READ, 8, kTold), kTold), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  return static_cast<uint32_t>(word(self, kTold));
}

void send_everything(Endpoint& self) {
  XrcEnd end(self);
  const auto queue = static_cast<uint32_t>(end.peer.srqn);
  const uint32_t rkey = self.peer.rkey;
  const uint64_t there = self.peer.address + kFar;
  fill(self, 0, 9000, 3);
  self.barrier();
  initiate_operations(self, end, queue);
  const uint64_t value = 0x1122334455667788;
  EXPECT_EQ(end.post(
                8, queue, [=](ibv_qp_ex* ex) { ibv_wr_atomic_write(ex, rkey, there + 8, &value); }, 0),
            0);
  expect_done(self, 8, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(state_of(end.sender), IBV_QPS_RTS);
  self.barrier();
}

void receive_everything(Endpoint& self) {
  XrcEnd end(self);
  for (uint64_t id = 1; id <= 3; id++) EXPECT_EQ(end.receive(40'000, 10'000, id), 0);
  self.barrier();
  expect_message(end, 1, IBV_WC_RECV, 1000);
  expect_message(end, 2, IBV_WC_RECV, 9000, 7);
  EXPECT_TRUE(holds(self, 40'000, 9000, 3));
  expect_message(end, 3, IBV_WC_RECV_RDMA_WITH_IMM, 64, 8);
  self.barrier();
  EXPECT_EQ(word(self, kFar), 42u);
  EXPECT_EQ(word(self, kFar + 8), 0x1122334455667788u);
  EXPECT_TRUE(holds(self, kFar + 16, 9000 - 16, 3 + 16 * 7));
  EXPECT_TRUE(self.no_event());
}

TEST_P(Xrc, CarriesEveryOperation) { play({}, send_everything, receive_everything); }

// The older way of posting names the queue in each work request.
void post_plainly(Endpoint& self) {
  XrcEnd end(self);
  fill(self, 0, 3000, 9);
  self.barrier();
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM}) {
    ibv_send_wr wr = self.request(opcode, 3000, kFar), *bad = nullptr;
    wr.imm_data = htonl(5);
    wr.qp_type.xrc.remote_srqn = static_cast<uint32_t>(end.peer.srqn);
    EXPECT_EQ(ibv_post_send(end.sender, &wr, &bad), 0);
  }
  expect_done(self, 100, IBV_WC_SEND);
  expect_done(self, 100, IBV_WC_RDMA_WRITE);
  ibv_recv_wr none{}, *bad = nullptr;
  EXPECT_NE(ibv_post_recv(end.sender, &none, &bad), 0) << "it receives nothing";
  self.barrier();
}

TEST_P(Xrc, TakesPlainWorkRequests) {
  play({}, post_plainly, [](Endpoint& self) {
    XrcEnd end(self);
    for (uint64_t id = 1; id <= 2; id++) EXPECT_EQ(end.receive(40'000, 4000, id), 0);
    self.barrier();
    expect_message(end, 1, IBV_WC_RECV, 3000);
    EXPECT_TRUE(holds(self, 40'000, 3000, 9));
    expect_message(end, 2, IBV_WC_RECV_RDMA_WITH_IMM, 3000, 5);
    EXPECT_TRUE(holds(self, kFar, 3000, 9));
    ibv_send_wr wr = self.request(IBV_WR_SEND, 8), *bad = nullptr;
    EXPECT_NE(ibv_post_send(end.receiver, &wr, &bad), 0) << "it sends nothing";
    self.barrier();
  });
}

// One connection reaches all queues of the domain, and messages wait for the one that they are for.
TEST_P(Xrc, ReachesEveryQueueOfTheDomain) {
  play(
      {},
      [](Endpoint& self) {
        XrcEnd end(self);
        self.barrier();
        const uint32_t queues[] = {static_cast<uint32_t>(end.peer.srqn), hear(self)};
        for (uint64_t id = 0; id < 16; id++) {
          fill(self, 1024, 2000, static_cast<uint8_t>(id));
          EXPECT_EQ(end.post(id, queues[id % 3 == 0], kSend, 2000, 1024), 0);
          expect_done(self, id, IBV_WC_SEND);
        }
        self.barrier();
      },
      [](Endpoint& self) {
        XrcEnd end(self);
        ibv_srq* other = make_shared(self, end.domain);
        ASSERT_NE(other, nullptr);
        tell(self, number_of(other));
        EXPECT_NE(number_of(other), end.srqn);
        self.barrier();
        for (uint64_t id = 0; id < 16; id++) {  // as slowly as may be: the sender waits in between
          EXPECT_EQ(end.receive(20'000 + id * 2000, 2000, id, id % 3 == 0 ? other : end.srq), 0);
          expect_message(end, id, IBV_WC_RECV, 2000);
          EXPECT_TRUE(holds(self, 20'000 + id * 2000, 2000, static_cast<uint8_t>(id)));
        }
        self.barrier();
        EXPECT_EQ(ibv_destroy_srq(other), 0);
      });
}

/// A request for a queue that is not the receiver's ends both ends, and says why.
void play_refused(Players players, const std::function<uint32_t(const XrcEnd&, Endpoint&)>& queue_of,
                  const std::function<ibv_srq*(XrcEnd&, Endpoint&)>& prepare) {
  play(
      players, {},
      [&](Endpoint& self) {
        XrcEnd end(self);
        self.barrier();
        EXPECT_EQ(end.post(1, queue_of(end, self), kSend, 100), 0);
        const ibv_wc wc = self.wait();
        EXPECT_EQ(wc.status, IBV_WC_REM_INV_REQ_ERR);
        EXPECT_EQ(wc.wr_id, 1u);
        EXPECT_EQ(state_of(end.sender), IBV_QPS_ERR);
        self.barrier();
      },
      [&](Endpoint& self) {
        XrcEnd end(self);
        ibv_srq* made = prepare(end, self);
        self.barrier();
        EXPECT_EQ(self.next_event(), IBV_EVENT_QP_REQ_ERR);
        EXPECT_EQ(self.next_event(), IBV_EVENT_QP_LAST_WQE_REACHED);
        EXPECT_EQ(state_of(end.receiver), IBV_QPS_ERR);
        EXPECT_TRUE(self.quiet());
        self.barrier();
        if (made == nullptr) return;
        ibv_xrcd* domain = static_cast<ibv_xrcd*>(made->srq_context);
        EXPECT_EQ(ibv_destroy_srq(made), 0);
        if (domain != nullptr) {
          EXPECT_EQ(ibv_close_xrcd(domain), 0);
        }
      });
}

TEST_P(Xrc, RefusesANumberThatNoQueueHas) {
  play_refused(
      GetParam(), [](const XrcEnd&, Endpoint&) { return 0x123456u; },
      [](XrcEnd&, Endpoint&) -> ibv_srq* { return nullptr; });
}

TEST_P(Xrc, RefusesAQueueOfAnotherDomain) {
  play_refused(
      GetParam(), [](const XrcEnd&, Endpoint& self) { return hear(self); },
      [](XrcEnd&, Endpoint& self) {
        ibv_xrcd* domain = open_domain(self.context);
        ibv_srq* srq = make_shared(self, domain);
        srq->srq_context = domain;
        tell(self, number_of(srq));
        return srq;
      });
}

// The memory key must be of the shared receive queue's protection domain: the receiver itself has none.
TEST_P(Xrc, TakesKeysOfTheQueuesDomainOnly) {
  play(
      {},
      [](Endpoint& self) {
        XrcEnd end(self);
        self.barrier();
        const uint32_t foreign = hear(self);
        const uint64_t there = self.peer.address + kFar;
        EXPECT_EQ(end.post(
                      1, static_cast<uint32_t>(end.peer.srqn),
                      [=](ibv_qp_ex* ex) { ibv_wr_rdma_write(ex, foreign, there); }, 100),
                  0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_ACCESS_ERR);
        self.barrier();
      },
      [](Endpoint& self) {
        XrcEnd end(self);
        ibv_pd* other = ibv_alloc_pd(self.context);
        ibv_mr* foreign = ibv_reg_mr(other, self.buffer.data(), self.buffer.size(), kAllRights);
        ASSERT_NE(foreign, nullptr);
        tell(self, foreign->rkey);
        self.barrier();
        self.barrier();
        EXPECT_EQ(ibv_dereg_mr(foreign), 0);
        EXPECT_EQ(ibv_dealloc_pd(other), 0);
      });
}

// A message that has begun is lost with its queue; the receiver goes on with what it still has.
TEST_P(Xrc, GoesOnWhenAQueueIsDestroyed) {
  play(
      {},
      [](Endpoint& self) {
        XrcEnd end(self);
        self.barrier();
        EXPECT_EQ(end.post(1, hear(self), kSend, 500), 0);
        expect_done(self, 1, IBV_WC_SEND);
        self.barrier();
        self.barrier();
        EXPECT_EQ(end.post(2, static_cast<uint32_t>(end.peer.srqn), kSend, 600), 0);
        expect_done(self, 2, IBV_WC_SEND);
        self.barrier();
      },
      [](Endpoint& self) {
        XrcEnd end(self);
        ibv_srq* other = make_shared(self, end.domain);
        ASSERT_NE(other, nullptr);
        tell(self, number_of(other));
        EXPECT_EQ(end.receive(40'000, 1000, 11, other), 0);
        EXPECT_EQ(end.receive(40'000, 1000, 12), 0);
        self.barrier();
        self.barrier();
        EXPECT_EQ(ibv_destroy_srq(other), 0) << "its unread completion goes with it";
        self.barrier();
        expect_message(end, 12, IBV_WC_RECV, 600);
        self.barrier();
      });
}

/// A file for domains, gone with the test.
struct File {
  File() : file(std::tmpfile()) {}
  ~File() { std::fclose(file); }
  int fd() const { return fileno(file); }
  std::FILE* file;
};

TEST(XrcDomains, AreThoseOfFiles) {
  ibv_context* context = open_first();
  File file, another;
  EXPECT_EQ(open_domain(context, file.fd(), 0), nullptr);
  EXPECT_EQ(errno, EAGAIN) << "there is none yet";
  ibv_xrcd* first = open_domain(context, file.fd(), O_CREAT | O_EXCL);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(open_domain(context, file.fd(), O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_xrcd* second = open_domain(context, file.fd(), 0);
  ASSERT_NE(second, nullptr);
  ibv_xrcd* other = open_domain(context, another.fd(), O_CREAT | O_EXCL);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(ibv_close_xrcd(first), 0);
  EXPECT_EQ(open_domain(context, file.fd(), O_CREAT | O_EXCL), nullptr) << "somebody has it open still";
  EXPECT_EQ(ibv_close_xrcd(second), 0);
  first = open_domain(context, file.fd(), O_CREAT | O_EXCL);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(ibv_close_xrcd(first), 0);
  EXPECT_EQ(ibv_close_xrcd(other), 0);
  EXPECT_EQ(open_domain(context, 12345), nullptr);
  EXPECT_EQ(errno, EBADF);
  ibv_xrcd_init_attr nothing{};
  EXPECT_EQ(ibv_open_xrcd(context, &nothing), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_device(context), 0);
}

/// What a process of its own finds of a file's domain: 0, or the errno of opening it like that.
int found_elsewhere(int fd, int flags) {
  const pid_t child = fork();
  if (child == 0) {
    ibv_context* context = open_first();
    ibv_xrcd* domain = open_domain(context, fd, flags);
    _exit(domain != nullptr ? 0 : errno);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(XrcDomains, AreSharedByProcessesAndEndWithTheLast) {
  File file;
  ibv_context* context = open_first();
  EXPECT_EQ(found_elsewhere(file.fd(), 0), EAGAIN);
  EXPECT_EQ(found_elsewhere(file.fd(), O_CREAT), 0) << "and it ended with that process";
  ibv_xrcd* domain = nullptr;
  // The agent hears of the end of a process a moment after it.
  for (int tries = 0; tries < 1000 && domain == nullptr; tries++) {
    domain = open_domain(context, file.fd(), O_CREAT | O_EXCL);
    if (domain == nullptr) usleep(1000);
  }
  ASSERT_NE(domain, nullptr);
  EXPECT_EQ(found_elsewhere(file.fd(), O_CREAT | O_EXCL), EINVAL);
  EXPECT_EQ(found_elsewhere(file.fd(), 0), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(XrcReceivers, AreOpenedAgainAndEndWithTheirLastHandle) {
  ibv_context* context = open_first();
  ibv_context* another = open_first();
  File file;
  ibv_xrcd* domain = open_domain(context, file.fd());
  ibv_xrcd* same = open_domain(another, file.fd(), 0);
  ibv_xrcd* different = open_domain(context);
  int own = 1, theirs = 2;
  ibv_qp* made = make_receiver(context, domain, &own);
  ASSERT_NE(made, nullptr);
  ibv_qp_open_attr wanted{};
  wanted.comp_mask =
      IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT;
  wanted.qp_num = made->qp_num;
  wanted.qp_type = IBV_QPT_XRC_RECV;
  wanted.qp_context = &theirs;
  wanted.xrcd = different;
  EXPECT_EQ(ibv_open_qp(context, &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
  wanted.xrcd = same;
  ibv_qp* opened = ibv_open_qp(another, &wanted);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(opened->qp_num, made->qp_num);
  EXPECT_EQ(opened->qp_context, &theirs);
  EXPECT_EQ(made->qp_context, &own);
  // They are one queue pair: what one does to it the other finds, and both hear of its end.
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(opened, &attr, kToInit), 0);
  EXPECT_EQ(state_of(made), IBV_QPS_INIT);
  attr.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(made, &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(state_of(opened), IBV_QPS_ERR);
  for (ibv_qp* each : {made, opened}) {
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(each->context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    EXPECT_EQ(event.element.qp, each);
    ibv_ack_async_event(&event);
  }
  EXPECT_EQ(ibv_destroy_qp(made), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), EBUSY) << "the queue pair is there still";
  EXPECT_EQ(state_of(opened), IBV_QPS_ERR);
  ibv_qp* third = ibv_open_qp(another, &wanted);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(ibv_destroy_qp(opened), 0);
  EXPECT_EQ(ibv_destroy_qp(third), 0);
  EXPECT_EQ(ibv_open_qp(another, &wanted), nullptr) << "it is gone";
  for (ibv_xrcd* each : {domain, same, different}) EXPECT_EQ(ibv_close_xrcd(each), 0);
  EXPECT_EQ(ibv_close_device(another), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(XrcObjects, NeedWhatBelongsToThem) {
  Endpoint self;
  ibv_xrcd* domain = open_domain(self.context);
  ibv_srq_init_attr_ex shared{};
  shared.attr = {8, 1, 0};
  shared.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD;
  shared.srq_type = IBV_SRQT_XRC;
  shared.pd = self.pd;
  shared.xrcd = domain;
  EXPECT_EQ(ibv_create_srq_ex(self.context, &shared), nullptr) << "without a completion queue";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(make_receiver(self.context, nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_type = IBV_QPT_XRC_RECV;
  EXPECT_EQ(ibv_open_qp(self.context, &open), nullptr) << "without a domain";
  EXPECT_EQ(errno, EINVAL);
  ibv_srq* srq = make_shared(self, domain);
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = self.cq;
  wanted.srq = srq;
  wanted.qp_type = IBV_QPT_XRC_SEND;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = self.pd;
  EXPECT_EQ(ibv_create_qp_ex(self.context, &wanted), nullptr) << "a sender receives nothing";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_xrcd(domain), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(self.cq), EBUSY);
  ibv_srq_attr now{};
  EXPECT_EQ(ibv_query_srq(srq, &now), 0);
  EXPECT_GE(now.max_wr, 64u);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

}  // namespace
}  // namespace verbatim::conformance
