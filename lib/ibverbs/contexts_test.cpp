// SPDX-License-Identifier: MIT
// Objects, events and forks through the library, both ends in one process.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "lib/mlx5/test_pair.h"

namespace verbatim::test {
namespace {

TEST(Devices, AreListedAndNamed) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_GE(count, 1);
  EXPECT_EQ(list[count], nullptr);
  EXPECT_STREQ(ibv_get_device_name(list[0]), "mlx5_0");
  EXPECT_EQ(ibv_get_device_index(list[0]), 0);
  ibv_context* context = ibv_open_device(list[0]);
  ASSERT_NE(context, nullptr);
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(context, &attr), 0);
  EXPECT_EQ(attr.node_guid, ibv_get_device_guid(list[0]));
  ibv_free_device_list(list);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Devices, PortsAndTablesHaveEnds) {
  Device device;
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(ibv_query_port(device.context, 2, &port), EINVAL);
  EXPECT_EQ(ibv_query_port(device.context, 0, &port), EINVAL);
  ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
  ibv_gid gid;
  EXPECT_EQ(ibv_query_gid(device.context, 1, port.gid_tbl_len, &gid), -1);
  EXPECT_EQ(errno, EINVAL);
  __be16 key = 0;
  ASSERT_EQ(ibv_query_pkey(device.context, 1, 0, &key), 0);
  EXPECT_EQ(key, 0xffff);
  EXPECT_EQ(ibv_get_pkey_index(device.context, 1, 0xffff), 0);
  EXPECT_EQ(ibv_get_pkey_index(device.context, 1, 0x1234), -1);
  std::vector<ibv_gid_entry> entries(256);
  const ssize_t found = ibv_query_gid_table(device.context, entries.data(), entries.size(), 0);
  ASSERT_GT(found, 0);
  ibv_gid_entry entry;
  ASSERT_EQ(ibv_query_gid_ex(device.context, 1, entries[0].gid_index, &entry, 0), 0);
  EXPECT_EQ(std::memcmp(&entry.gid, &entries[0].gid, sizeof entry.gid), 0);
  if (found > 1) {
    EXPECT_EQ(ibv_query_gid_table(device.context, entries.data(), 1, 0), -EINVAL);
  }
}

TEST(Domains, AreBusyWhileUsed) {
  Device device;
  EXPECT_EQ(ibv_dealloc_pd(device.pd), EBUSY);
  ibv_td_init_attr td_attr{};
  ibv_td* td = ibv_alloc_td(device.context, &td_attr);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr attr{};
  attr.pd = device.pd;
  attr.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(device.context, &attr);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  ibv_mr* mr = ibv_reg_mr(parent, device.memory.data(), 64, 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST(Memory, RegistrationIsChecked) {
  Device device;
  char* memory = reinterpret_cast<char*>(device.memory.data());
  EXPECT_EQ(ibv_reg_mr(device.pd, memory, 64, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(
      ibv_reg_mr_iova(device.pd, memory, 64, reinterpret_cast<uint64_t>(memory) + 8, IBV_ACCESS_LOCAL_WRITE),
      nullptr);
  EXPECT_EQ(errno, EINVAL);
  void* hole = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(ibv_reg_mr(device.pd, hole, 4096, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
  munmap(hole, 4096);
  ibv_mr* relaxed = ibv_reg_mr(device.pd, memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_NE(relaxed, nullptr);
  EXPECT_EQ(ibv_dereg_mr(relaxed), 0);
}

TEST(Memory, ReregistrationReturnsItsOwnCodes) {
  Device device;
  ibv_mr* mr = ibv_reg_mr(device.pd, device.memory.data(), 64, kAccess);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, 1 << 5, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 64, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  ASSERT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, device.memory.data() + 4096, 128, 0),
            0);
  EXPECT_EQ(mr->addr, device.memory.data() + 4096);
  EXPECT_EQ(mr->length, 128u);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

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

TEST(Events, LastEntryOfASharedQueueIsReported) {
  Device device;
  ibv_srq_init_attr init{};
  init.attr = {4, 1, 0};
  ibv_srq* srq = ibv_create_srq(device.pd, &init);
  {
    Shape shape;
    shape.srq = srq;
    Pair pair(device, shape);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(pair.qp[1], &attr, IBV_QP_STATE), 0);
    ibv_async_event event;
    ASSERT_EQ(ibv_get_async_event(device.context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    EXPECT_EQ(event.element.qp, pair.qp[1]);
    ibv_ack_async_event(&event);
  }
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

int in_child(Device& device, Pair& pair) {
  ibv_sge sge;
  ibv_send_wr wr = pair.write(1, sge, 0, 4096, 8), *bad = nullptr;
  ibv_wc wc;
  ibv_device_attr attr;
  if (ibv_post_send(pair.qp[0], &wr, &bad) != EIO || bad != &wr) return 1;
  if (ibv_poll_cq(pair.cq[0], 1, &wc) >= 0) return 2;
  if (ibv_query_device(device.context, &attr) != EIO) return 3;
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

TEST(Rates, GoBothWays) {
  for (int rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_1200_GBPS; rate++) {
    const auto each = static_cast<ibv_rate>(rate);
    EXPECT_EQ(mbps_to_ibv_rate(ibv_rate_to_mbps(each)), each);
    if (ibv_rate_to_mult(each) > 0) {
      EXPECT_EQ(mult_to_ibv_rate(ibv_rate_to_mult(each)), each);
    }
  }
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_MAX), -1);
  EXPECT_EQ(mult_to_ibv_rate(0), IBV_RATE_MAX);
  EXPECT_STREQ(ibv_wc_status_str(static_cast<ibv_wc_status>(99)), "unknown");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
}

}  // namespace
}  // namespace verbatim::test
