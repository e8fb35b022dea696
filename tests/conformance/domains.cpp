// SPDX-License-Identifier: MIT
// Parent domains with allocators of the program, and regions of the whole address space.
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

/// What a program that gives out queue memory remembers of it.
struct Allocator {
  enum class Answer { kMemory, kDefault, kNothing };
  Answer answer = Answer::kMemory;
  std::map<void*, uint64_t> out;        ///< what it is for
  std::map<uint64_t, int> asked, back;  ///< by what for

  static void* alloc(ibv_pd* pd, void* context, size_t size, size_t alignment, uint64_t type) {
    auto& self = *static_cast<Allocator*>(context);
    EXPECT_NE(pd, nullptr);
    self.asked[type]++;
    if (self.answer == Answer::kDefault) return IBV_ALLOCATOR_USE_DEFAULT;
    if (self.answer == Answer::kNothing) return nullptr;
    void* memory = nullptr;
    EXPECT_EQ(posix_memalign(&memory, std::max(alignment, sizeof(void*)), size), 0);
    std::memset(memory, 0x5a, size);
    self.out[memory] = type;
    return memory;
  }
  static void free(ibv_pd*, void* context, void* memory, uint64_t type) {
    auto& self = *static_cast<Allocator*>(context);
    EXPECT_EQ(self.out.at(memory), type);
    self.out.erase(memory);
    self.back[type]++;
    std::free(memory);
  }
};

ibv_pd* make_parent(Endpoint& self, Allocator& allocator) {
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = self.pd;
  wanted.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  wanted.alloc = Allocator::alloc;
  wanted.free = Allocator::free;
  wanted.pd_context = &allocator;
  return ibv_alloc_parent_domain(self.context, &wanted);
}

ibv_cq_ex* make_cq(Endpoint& self, ibv_pd* parent) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 16;
  wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
  wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  wanted.parent_domain = parent;
  return ibv_create_cq_ex(self.context, &wanted);
}

ibv_qp* make_qp(ibv_pd* parent, ibv_cq_ex* cq, ibv_srq* srq) {
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = ibv_cq_ex_to_cq(cq);
  wanted.srq = srq;
  wanted.cap = {8, 0, 1, 0, 0};
  return ibv_create_qp(parent, &wanted);
}

TEST(ParentDomains, GiveTheMemoryOfQueues) {
  Endpoint self, peer;
  Allocator allocator;
  ibv_pd* parent = make_parent(self, allocator);
  ASSERT_NE(parent, nullptr);
  ibv_cq_ex* cq = make_cq(self, parent);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(allocator.asked[MLX5DV_RES_TYPE_CQ], 1);
  ibv_srq_init_attr srq_wanted{nullptr, {8, 1, 0}};
  ibv_srq* srq = ibv_create_srq(parent, &srq_wanted);
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(allocator.asked[MLX5DV_RES_TYPE_SRQ], 1);
  ibv_qp* qp = make_qp(parent, cq, srq);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(allocator.asked[MLX5DV_RES_TYPE_QP], 1);
  ibv_wq_init_attr wq_wanted{};
  wq_wanted.wq_type = IBV_WQT_RQ;
  wq_wanted.max_wr = wq_wanted.max_sge = 1;
  wq_wanted.pd = parent;
  wq_wanted.cq = ibv_cq_ex_to_cq(cq);
  ibv_wq* wq = ibv_create_wq(self.context, &wq_wanted);
  ASSERT_NE(wq, nullptr);
  EXPECT_EQ(allocator.asked[MLX5DV_RES_TYPE_RWQ], 1);
  EXPECT_EQ(allocator.asked[MLX5DV_RES_TYPE_DBR], 4);
  EXPECT_EQ(allocator.out.size(), 8u);
  // They work in such memory.
  ibv_qp* own = self.qp;
  self.qp = qp;
  const Contact mine = self.contact();
  EXPECT_EQ(self.connect(peer.contact()), 0);
  EXPECT_EQ(peer.connect(mine), 0);
  ibv_sge sge = self.piece(0, 1000);
  ibv_recv_wr receive{7, nullptr, &sge, 1}, *bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq, &receive, &bad), 0);
  fill(peer, 0, 1000, 3);
  EXPECT_EQ(peer.post(peer.request(IBV_WR_SEND, 1000)), 0);
  EXPECT_EQ(peer.wait_status(), IBV_WC_SUCCESS);
  ibv_wc wc{};
  while (ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc) == 0) {
  }
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 7u);
  EXPECT_TRUE(holds(self, 0, 1000, 3));
  self.qp = own;
  EXPECT_EQ(ibv_destroy_wq(wq), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  EXPECT_TRUE(allocator.out.empty());
  EXPECT_EQ(allocator.back, allocator.asked);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST(ParentDomains, MayLeaveItToTheLibraryOrRefuse) {
  Endpoint self;
  Allocator allocator;
  ibv_pd* parent = make_parent(self, allocator);
  ASSERT_NE(parent, nullptr);
  allocator.answer = Allocator::Answer::kDefault;
  ibv_cq_ex* cq = make_cq(self, parent);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  EXPECT_TRUE(allocator.back.empty()) << "what was not given does not come back";
  allocator.answer = Allocator::Answer::kNothing;
  EXPECT_EQ(make_cq(self, parent), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = self.pd;
  wanted.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  wanted.alloc = Allocator::alloc;
  EXPECT_EQ(ibv_alloc_parent_domain(self.context, &wanted), nullptr) << "allocators come in pairs";
  EXPECT_EQ(errno, EINVAL);
}

// One key for all that the process has or will have.
TEST(WholeAddressSpace, IsLookedUpWhenItIsUsed) {
  Pair pair;
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(pair.left.context, nullptr, &device), 0);
  EXPECT_NE(device.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT, 0u);
  EXPECT_NE(device.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_WRITE, 0u);
  ibv_mr* mr = ibv_reg_mr(pair.right.pd, nullptr, SIZE_MAX, kAllRights | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  std::vector<uint8_t> later(10'000);
  fill(pair.left, 0, 10'000, 5);
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 10'000);
  wr.wr.rdma = {reinterpret_cast<uint64_t>(later.data()), mr->rkey};
  ASSERT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(later.data(), pair.left.buffer.data(), 10'000), 0);
  wr.wr.rdma.remote_addr = 4096;  // nothing is there
  ASSERT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

}  // namespace
}  // namespace verbatim::conformance
