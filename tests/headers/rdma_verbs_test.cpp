// SPDX-License-Identifier: MIT
// The inline functions of rdma_verbs.h over a device that only writes down what it is asked.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_verbs.h>

#include <deque>
#include <vector>

namespace {

struct Recorder {
  std::vector<ibv_send_wr> sends;
  std::vector<ibv_sge> pieces;
  std::vector<ibv_recv_wr> receives;
  std::vector<ibv_recv_wr> shared_receives;
  std::deque<int> poll_results;
  int post_result = 0;
  int arm_result = 0;
  int arms = 0;
  int events = 0;
  unsigned acknowledged = 0;
  int access = -1;
} recorder;

int post_send(ibv_qp*, ibv_send_wr* request, ibv_send_wr** refused) {
  recorder.sends.push_back(*request);
  recorder.pieces.insert(recorder.pieces.end(), request->sg_list, request->sg_list + request->num_sge);
  *refused = request;
  return recorder.post_result;
}

int post_recv(ibv_qp*, ibv_recv_wr* request, ibv_recv_wr** refused) {
  recorder.receives.push_back(*request);
  recorder.pieces.insert(recorder.pieces.end(), request->sg_list, request->sg_list + request->num_sge);
  *refused = request;
  return recorder.post_result;
}

int post_srq_recv(ibv_srq*, ibv_recv_wr* request, ibv_recv_wr** refused) {
  recorder.shared_receives.push_back(*request);
  *refused = request;
  return recorder.post_result;
}

int poll_cq(ibv_cq*, int, ibv_wc*) {
  const int result = recorder.poll_results.front();
  recorder.poll_results.pop_front();
  return result;
}

int req_notify_cq(ibv_cq*, int) {
  ++recorder.arms;
  return recorder.arm_result;
}

class RdmaVerbs : public testing::Test {
 protected:
  RdmaVerbs() {
    recorder = {};
    context_.ops.post_send = post_send;
    context_.ops.post_recv = post_recv;
    context_.ops.post_srq_recv = post_srq_recv;
    context_.ops.poll_cq = poll_cq;
    context_.ops.req_notify_cq = req_notify_cq;
    qp_.context = srq_.context = cq_.context = &context_;
    id_.qp = &qp_;
    id_.send_cq = id_.recv_cq = &cq_;
    mr_.addr = memory_;
    mr_.length = sizeof memory_;
    mr_.lkey = 7;
  }

  ibv_context context_{};
  ibv_qp qp_{};
  ibv_srq srq_{};
  ibv_cq cq_{};
  ibv_mr mr_{};
  rdma_cm_id id_{};
  char memory_[64]{};
};

}  // namespace

extern "C" {
#undef ibv_reg_mr
ibv_mr* ibv_reg_mr(ibv_pd*, void*, size_t, int access) {
  recorder.access = access;
  return nullptr;
}
// What the macro chooses for access that is optional or not known to the compiler.
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t, unsigned access) {
  return ibv_reg_mr(pd, addr, length, static_cast<int>(access));
}
int ibv_dereg_mr(ibv_mr*) { return EBUSY; }
int ibv_get_cq_event(ibv_comp_channel*, ibv_cq** cq, void**) {
  ++recorder.events;
  *cq = nullptr;
  return recorder.events > 2 ? -1 : 0;
}
void ibv_ack_cq_events(ibv_cq*, unsigned count) { recorder.acknowledged += count; }
}

namespace {

TEST_F(RdmaVerbs, RegistersForItsPurpose) {
  rdma_reg_msgs(&id_, memory_, 1);
  EXPECT_EQ(recorder.access, IBV_ACCESS_LOCAL_WRITE);
  rdma_reg_read(&id_, memory_, 1);
  EXPECT_EQ(recorder.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  rdma_reg_write(&id_, memory_, 1);
  EXPECT_EQ(recorder.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

TEST_F(RdmaVerbs, ErrorsBecomeErrno) {
  errno = 0;
  EXPECT_EQ(rdma_dereg_mr(&mr_), -1);
  EXPECT_EQ(errno, EBUSY);
  recorder.post_result = ENOMEM;
  EXPECT_EQ(rdma_post_send(&id_, nullptr, memory_, 1, &mr_, 0), -1);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(RdmaVerbs, PostsSend) {
  EXPECT_EQ(rdma_post_send(&id_, &id_, memory_, 5, &mr_, IBV_SEND_SIGNALED), 0);
  ASSERT_EQ(recorder.sends.size(), 1u);
  EXPECT_EQ(recorder.sends[0].opcode, IBV_WR_SEND);
  EXPECT_EQ(recorder.sends[0].wr_id, reinterpret_cast<uintptr_t>(&id_));
  EXPECT_EQ(recorder.sends[0].send_flags, unsigned{IBV_SEND_SIGNALED});
  EXPECT_EQ(recorder.sends[0].next, nullptr);
  EXPECT_EQ(recorder.pieces[0].addr, reinterpret_cast<uintptr_t>(memory_));
  EXPECT_EQ(recorder.pieces[0].length, 5u);
  EXPECT_EQ(recorder.pieces[0].lkey, 7u);
}

TEST_F(RdmaVerbs, PostsOneSided) {
  EXPECT_EQ(rdma_post_read(&id_, nullptr, memory_, 5, &mr_, 0, 0x1000, 9), 0);
  EXPECT_EQ(rdma_post_write(&id_, nullptr, memory_, 5, nullptr, IBV_SEND_INLINE, 0x2000, 10), 0);
  ASSERT_EQ(recorder.sends.size(), 2u);
  EXPECT_EQ(recorder.sends[0].opcode, IBV_WR_RDMA_READ);
  EXPECT_EQ(recorder.sends[0].wr.rdma.remote_addr, 0x1000u);
  EXPECT_EQ(recorder.sends[0].wr.rdma.rkey, 9u);
  EXPECT_EQ(recorder.sends[1].opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(recorder.sends[1].wr.rdma.remote_addr, 0x2000u);
  EXPECT_EQ(recorder.pieces[1].lkey, 0u);
}

TEST_F(RdmaVerbs, PostsDatagram) {
  ibv_ah handle{};
  EXPECT_EQ(rdma_post_ud_send(&id_, nullptr, memory_, 5, &mr_, 0, &handle, 17), 0);
  ASSERT_EQ(recorder.sends.size(), 1u);
  EXPECT_EQ(recorder.sends[0].wr.ud.ah, &handle);
  EXPECT_EQ(recorder.sends[0].wr.ud.remote_qpn, 17u);
  EXPECT_EQ(recorder.sends[0].wr.ud.remote_qkey, unsigned{RDMA_UDP_QKEY});
}

TEST_F(RdmaVerbs, ReceivesGoToTheSharedQueueIfThereIsOne) {
  EXPECT_EQ(rdma_post_recv(&id_, &id_, memory_ + 4, 60, &mr_), 0);
  id_.srq = &srq_;
  EXPECT_EQ(rdma_post_recv(&id_, &id_, memory_, 64, &mr_), 0);
  ASSERT_EQ(recorder.receives.size(), 1u);
  ASSERT_EQ(recorder.shared_receives.size(), 1u);
  EXPECT_EQ(recorder.receives[0].wr_id, reinterpret_cast<uintptr_t>(&id_));
  EXPECT_EQ(recorder.pieces[0].length, 60u);
}

TEST_F(RdmaVerbs, CompletionAtHandNeedsNoWait) {
  ibv_wc completion{};
  recorder.poll_results = {1};
  EXPECT_EQ(rdma_get_send_comp(&id_, &completion), 1);
  EXPECT_EQ(recorder.arms, 0);
}

TEST_F(RdmaVerbs, CompletionThatComesWhileArmingIsFound) {
  ibv_wc completion{};
  recorder.poll_results = {0, 1};
  EXPECT_EQ(rdma_get_recv_comp(&id_, &completion), 1);
  EXPECT_EQ(recorder.arms, 1);
  EXPECT_EQ(recorder.events, 0);
}

TEST_F(RdmaVerbs, WaitsAndAcknowledges) {
  ibv_wc completion{};
  recorder.poll_results = {0, 0, 0, 0, 1};
  EXPECT_EQ(rdma_get_recv_comp(&id_, &completion), 1);
  EXPECT_EQ(recorder.events, 2);
  EXPECT_EQ(recorder.acknowledged, 2u);
}

TEST_F(RdmaVerbs, WaitingFails) {
  ibv_wc completion{};
  recorder.poll_results = {-1};
  EXPECT_EQ(rdma_get_send_comp(&id_, &completion), -1);
  EXPECT_EQ(errno, EIO);
  recorder.poll_results = {0};
  recorder.arm_result = EINVAL;
  EXPECT_EQ(rdma_get_send_comp(&id_, &completion), -1);
  EXPECT_EQ(errno, EINVAL);
  recorder = {};
  recorder.poll_results = {0, 0};
  recorder.events = 2;
  EXPECT_EQ(rdma_get_send_comp(&id_, &completion), -1);
}

}  // namespace
