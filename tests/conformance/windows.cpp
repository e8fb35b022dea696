// SPDX-License-Identifier: MIT
// Memory windows: what peers may reach while they are bound, and no longer.
#include <cerrno>
#include <cstring>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr int kRemote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

Traits window_traits() {
  Traits traits;
  traits.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
  traits.operations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW;
  return traits;
}

/// Two players, and a window of the right one's.
struct Windows : testing::Test {
  Pair pair{window_traits()};
  Endpoint &left = pair.left, &right = pair.right;
  ibv_mw* window = nullptr;

  void make(ibv_mw_type type) {
    window = ibv_alloc_mw(right.pd, type);
    ASSERT_NE(window, nullptr);
    EXPECT_EQ(window->type, type);
    EXPECT_EQ(window->pd, right.pd);
  }
  ~Windows() override {
    if (window != nullptr) {
      EXPECT_EQ(ibv_dealloc_mw(window), 0);
    }
  }
  ibv_mw_bind_info range(size_t offset, uint64_t bytes, unsigned int access = kRemote) {
    return {right.mr, right.contact().address + offset, bytes, access};
  }
  ibv_wc_status bind1(const ibv_mw_bind_info& info) {
    ibv_mw_bind wanted{33, IBV_SEND_SIGNALED, info};
    EXPECT_EQ(ibv_bind_mw(right.qp, window, &wanted), 0);
    return completed(33);
  }
  int post2(const ibv_mw_bind_info& info, uint32_t rkey) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = 44;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = window;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = info;
    return ibv_post_send(right.qp, &wr, &bad);
  }
  ibv_wc_status completed(uint64_t id) {
    const ibv_wc wc = right.wait();
    EXPECT_EQ(wc.wr_id, id);
    if (wc.status == IBV_WC_SUCCESS) {
      EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
    }
    return wc.status;
  }
  ibv_wc_status reach(ibv_wr_opcode opcode, uint32_t rkey, uint64_t address, size_t bytes = 32) {
    ibv_send_wr wr = left.request(opcode, bytes);
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
    EXPECT_EQ(left.post(wr), 0);
    return left.wait_status();
  }
  uint64_t address(size_t offset) const { return right.contact().address + offset; }
};

TEST_F(Windows, OfType1OpenAndCloseBinding) {
  make(IBV_MW_TYPE_1);
  const uint32_t first = window->rkey;
  ASSERT_EQ(bind1(range(1000, 500)), IBV_WC_SUCCESS);
  EXPECT_NE(window->rkey, first);
  fill(left, 0, 32, 5);
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, window->rkey, address(1468)), IBV_WC_SUCCESS);
  EXPECT_TRUE(holds(right, 1468, 32, 5));
  EXPECT_EQ(reach(IBV_WR_RDMA_READ, window->rkey, address(1000)), IBV_WC_SUCCESS);
  const uint32_t bound = window->rkey;
  ASSERT_EQ(bind1(range(4000, 100)), IBV_WC_SUCCESS) << "elsewhere, while it is bound";
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, window->rkey, address(4000)), IBV_WC_SUCCESS);
  ASSERT_EQ(bind1(range(0, 0)), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, bound, address(1000)), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, EndWhereTheyEnd) {
  make(IBV_MW_TYPE_1);
  ASSERT_EQ(bind1(range(1000, 500)), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, window->rkey, address(1469)), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, GrantWhatTheyWereBoundWith) {
  make(IBV_MW_TYPE_1);
  ASSERT_EQ(bind1(range(1000, 500, IBV_ACCESS_REMOTE_READ)), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(IBV_WR_RDMA_READ, window->rkey, address(1000)), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, window->rkey, address(1000)), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, EndWithTheirRelease) {
  make(IBV_MW_TYPE_1);
  ASSERT_EQ(bind1(range(1000, 500)), IBV_WC_SUCCESS);
  const uint32_t rkey = window->rkey;
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  window = nullptr;
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, rkey, address(1000)), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, OfType2HaveKeysOfTheProgramAndFreeThem) {
  make(IBV_MW_TYPE_2);
  const uint32_t rkey = ibv_inc_rkey(window->rkey);
  ASSERT_EQ(post2(range(1000, 500), rkey), 0);
  ASSERT_EQ(completed(44), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, rkey, address(1000)), IBV_WC_SUCCESS);
  ibv_send_wr free = right.request(IBV_WR_LOCAL_INV, 0);
  free.num_sge = 0;
  free.invalidate_rkey = rkey;
  ASSERT_EQ(right.post(free), 0);
  EXPECT_EQ(right.wait_status(), IBV_WC_SUCCESS);
  const uint32_t next = ibv_inc_rkey(rkey);
  ASSERT_EQ(post2(range(2000, 64, kRemote | IBV_ACCESS_ZERO_BASED), next), 0);
  ASSERT_EQ(completed(44), IBV_WC_SUCCESS);
  fill(left, 0, 32, 9);
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, next, 32), IBV_WC_SUCCESS);
  EXPECT_TRUE(holds(right, 2032, 32, 9));
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, rkey, address(1000)), IBV_WC_REM_ACCESS_ERR) << "by its old key";
}

TEST_F(Windows, OfType2AreBoundWhileTheyAreFree) {
  make(IBV_MW_TYPE_2);
  const uint32_t rkey = ibv_inc_rkey(window->rkey);
  ASSERT_EQ(post2(range(1000, 500), rkey), 0);
  ASSERT_EQ(completed(44), IBV_WC_SUCCESS);
  window->rkey = rkey;
  ASSERT_EQ(post2(range(0, 500), ibv_inc_rkey(rkey)), 0);
  EXPECT_EQ(completed(44), IBV_WC_MW_BIND_ERR);
}

TEST_F(Windows, OfType2AreFreedByThePeer) {
  make(IBV_MW_TYPE_2);
  const uint32_t rkey = ibv_inc_rkey(window->rkey);
  ASSERT_EQ(post2(range(1000, 500), rkey), 0);
  ASSERT_EQ(completed(44), IBV_WC_SUCCESS);
  ASSERT_EQ(right.receive(0, 64), 0);
  ibv_send_wr send = left.request(IBV_WR_SEND_WITH_INV, 16);
  send.invalidate_rkey = rkey;
  ASSERT_EQ(left.post(send), 0);
  EXPECT_EQ(left.wait_status(), IBV_WC_SUCCESS);
  const ibv_wc wc = right.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.invalidated_rkey, rkey);
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, rkey, address(1000)), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, OfType2BelongToTheirQueuePair) {
  make(IBV_MW_TYPE_2);
  const uint32_t rkey = ibv_inc_rkey(window->rkey);
  ASSERT_EQ(post2(range(1000, 500), rkey), 0);
  ASSERT_EQ(completed(44), IBV_WC_SUCCESS);
  // Another connection to the same domain.
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = right.cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {4, 4, 1, 1, 0};
  ibv_qp* other = ibv_create_qp(right.pd, &wanted);
  ASSERT_NE(other, nullptr);
  Endpoint third(window_traits());
  const Contact there = third.contact(), here = right.contact();
  test::Connection connection;
  connection.gid = there.gid;
  connection.qpn = there.qpn;
  connection.receive_psn = there.psn;
  connection.access = kAllRights;
  ASSERT_EQ(test::step_to_init(other, connection), 0);
  ASSERT_EQ(test::step_to_rtr(other, connection), 0);
  ASSERT_EQ(test::step_to_rts(other, connection), 0);
  Contact to = here;
  to.qpn = other->qp_num;
  to.psn = 0;
  ASSERT_EQ(third.connect(to), 0);
  ibv_send_wr wr = third.request(IBV_WR_RDMA_WRITE, 16);
  wr.wr.rdma.remote_addr = address(1000);
  wr.wr.rdma.rkey = rkey;
  ASSERT_EQ(third.post(wr), 0);
  EXPECT_EQ(third.wait_status(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, rkey, address(1000)), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(IBV_WR_RDMA_READ, rkey, address(1000)), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_destroy_qp(other), 0);
}

TEST_F(Windows, AreBoundByTheBuilder) {
  make(IBV_MW_TYPE_2);
  const uint32_t rkey = ibv_inc_rkey(window->rkey);
  const ibv_mw_bind_info info = range(1000, 500);
  ibv_qp_ex* qp = right.builder();
  ibv_wr_start(qp);
  qp->wr_id = 55;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_bind_mw(qp, window, rkey, &info);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(completed(55), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(IBV_WR_RDMA_READ, rkey, address(1000)), IBV_WC_SUCCESS);
}

TEST_F(Windows, KeepTheirRegion) {
  make(IBV_MW_TYPE_1);
  ibv_mr* region = ibv_reg_mr(right.pd, right.buffer.data(), 4096, window_traits().mr_access);
  ASSERT_NE(region, nullptr);
  ibv_mw_bind_info info = range(0, 64);
  info.mr = region;
  ASSERT_EQ(bind1(info), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(region), EBUSY);
  EXPECT_EQ(reach(IBV_WR_RDMA_READ, window->rkey, address(0)), IBV_WC_SUCCESS) << "it is as it was";
  ASSERT_EQ(bind1(range(0, 64)), IBV_WC_SUCCESS) << "to another region";
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  make(IBV_MW_TYPE_2);
  region = ibv_reg_mr(right.pd, right.buffer.data(), 4096, window_traits().mr_access);
  info.mr = region;
  const uint32_t rkey = ibv_inc_rkey(window->rkey);
  ASSERT_EQ(post2(info, rkey), 0);
  ASSERT_EQ(completed(44), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(region), EBUSY);
  ibv_send_wr free = right.request(IBV_WR_LOCAL_INV, 0);
  free.num_sge = 0;
  free.invalidate_rkey = rkey;
  ASSERT_EQ(right.post(free), 0);
  EXPECT_EQ(right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(region), 0) << "freed";
}

TEST_F(Windows, NeedARegionThatAllowsThem) {
  make(IBV_MW_TYPE_1);
  struct {
    int region;
    unsigned int window;
    int outcome;
  } const cases[] = {
      {IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, EINVAL},
      {IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_READ, 0},
      {IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_WRITE, EINVAL},
      {IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
      {IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, 0},
  };
  for (const auto& c : cases) {
    ibv_mr* region = ibv_reg_mr(right.pd, right.buffer.data(), 4096, c.region);
    ASSERT_NE(region, nullptr);
    ibv_mw_bind wanted{33, IBV_SEND_SIGNALED, range(0, 64, c.window)};
    wanted.bind_info.mr = region;
    EXPECT_EQ(ibv_bind_mw(right.qp, window, &wanted), c.outcome) << c.region << ' ' << c.window;
    if (c.outcome == 0) {
      EXPECT_EQ(completed(33), IBV_WC_SUCCESS);
      EXPECT_EQ(bind1(range(0, 0)), IBV_WC_SUCCESS);
    }
    EXPECT_EQ(ibv_dereg_mr(region), 0);
  }
}

TEST_F(Windows, AreRefusedWhereTheyMakeNoSense) {
  errno = 0;
  EXPECT_EQ(ibv_alloc_mw(right.pd, static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
  make(IBV_MW_TYPE_1);
  ibv_mw_bind wanted{1, IBV_SEND_SIGNALED, range(0, 64, kRemote | IBV_ACCESS_ZERO_BASED)};
  EXPECT_EQ(ibv_bind_mw(right.qp, window, &wanted), EINVAL);
  wanted.bind_info = range(0, (uint64_t{1} << 31) + 1);
  EXPECT_EQ(ibv_bind_mw(right.qp, window, &wanted), EOPNOTSUPP);
  wanted.bind_info.mr = nullptr;
  EXPECT_EQ(ibv_bind_mw(right.qp, window, &wanted), EINVAL);
  ibv_device_attr device{};
  EXPECT_EQ(ibv_query_device(right.context, &device), 0);
  EXPECT_GT(device.max_mw, 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0u);
  // A window beyond its region opens nothing.
  ASSERT_EQ(bind1(range(kBuffer - 16, 64)), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(IBV_WR_RDMA_WRITE, window->rkey, address(kBuffer - 16)), IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
}  // namespace verbatim::conformance
