// SPDX-License-Identifier: MIT
// Completion events and forks through the library, both ends in one process.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "testing/verbs_pair.h"

namespace verbatim::test {
namespace {

/// A queue pair connected to itself whose completion queue has a channel.
struct WithChannel {
  explicit WithChannel(Device& device) : pair(device) {
    channel = ibv_create_comp_channel(device.context);
    cq = ibv_create_cq(device.context, 32, this, channel, 0);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {8, 8, 1, 1, 0};
    attr.qp_type = IBV_QPT_RC;
    attr.sq_sig_all = 1;
    qp = ibv_create_qp(device.pd, &attr);
    EXPECT_EQ(to_init(qp), 0);
    EXPECT_EQ(to_ready(qp, qp->qp_num), 0);
  }
  void write() {
    ibv_sge sge;
    ibv_send_wr wr = pair.write(1, sge, 0, 4096, 8), *bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  }
  bool readable() const {
    pollfd ready{channel->fd, POLLIN, 0};
    return poll(&ready, 1, 0) == 1;
  }
  Pair pair;
  ibv_comp_channel* channel;
  ibv_cq* cq;
  ibv_qp* qp;
};

TEST(Events, ArmedQueueRaisesOne) {
  Device device;
  WithChannel end(device);
  end.write();
  EXPECT_EQ(next(end.cq).status, IBV_WC_SUCCESS);
  EXPECT_FALSE(end.readable());
  ASSERT_EQ(ibv_req_notify_cq(end.cq, 0), 0);
  end.write();
  end.write();
  next(end.cq);
  next(end.cq);
  ibv_cq* from = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(end.channel, &from, &context), 0);
  EXPECT_EQ(from, end.cq);
  EXPECT_EQ(context, &end);
  fcntl(end.channel->fd, F_SETFL, O_NONBLOCK);
  EXPECT_EQ(ibv_get_cq_event(end.channel, &from, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(ibv_destroy_comp_channel(end.channel), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(end.qp), 0);
  // Destruction waits for the acknowledgement.
  std::atomic<bool> acknowledged{false};
  std::thread late([&] {
    usleep(50'000);
    acknowledged = true;
    ibv_ack_cq_events(end.cq, 1);
  });
  EXPECT_EQ(ibv_destroy_cq(end.cq), 0);
  EXPECT_TRUE(acknowledged);
  late.join();
  EXPECT_EQ(ibv_destroy_comp_channel(end.channel), 0);
}

TEST(Events, UnreadOnesGoWithTheirQueue) {
  Device device;
  WithChannel end(device);
  ASSERT_EQ(ibv_req_notify_cq(end.cq, 0), 0);
  end.write();
  next(end.cq);
  EXPECT_TRUE(end.readable());
  EXPECT_EQ(ibv_destroy_qp(end.qp), 0);
  EXPECT_EQ(ibv_destroy_cq(end.cq), 0);
  EXPECT_FALSE(end.readable());
  EXPECT_EQ(ibv_destroy_comp_channel(end.channel), 0);
}

int in_child(Device& device, Pair& pair) {
  ibv_sge sge;
  ibv_send_wr wr = pair.write(1, sge, 0, 4096, 8), *bad = nullptr;
  ibv_wc wc;
  ibv_device_attr attr;
  if (ibv_post_send(pair.qp[0], &wr, &bad) != EIO || bad != &wr) return 1;
  if (ibv_poll_cq(pair.cq[0], 1, &wc) >= 0) return 2;
  if (ibv_query_device(device.context, &attr) != 0 || attr.max_qp == 0) return 3;
  if (ibv_alloc_pd(device.context) != nullptr || errno != EIO) return 4;
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.qp[0]);
  ibv_wr_start(qp);
  ibv_wr_rdma_write(qp, 0, 0);
  ibv_wr_set_sge(qp, 0, 0, 8);
  if (ibv_wr_complete(qp) != EIO) return 5;
  if (ibv_destroy_qp(pair.qp[0]) != 0) return 6;
  // The child's own device works like any other.
  Device own;
  if (own.context == nullptr) return 7;
  Pair fresh(own);
  wr = fresh.write(2, sge, 0, 4096, 8);
  if (ibv_post_send(fresh.qp[0], &wr, &bad) != 0 || next(fresh.cq[0]).wr_id != 2) return 8;
  return testing::Test::HasFailure() ? 9 : 0;
}

TEST(Fork, LeavesTheDeviceToTheParent) {
  Device device;
  Pair pair(device);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int result = in_child(device, pair);
    _exit(result);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ibv_sge sge;
  ibv_send_wr wr = pair.write(3, sge, 0, 4096, 8), *bad = nullptr;
  ASSERT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), 0);
  EXPECT_EQ(next(pair.cq[0]).wr_id, 3u);
}

}  // namespace
}  // namespace verbatim::test
