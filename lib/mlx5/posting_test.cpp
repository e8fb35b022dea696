// SPDX-License-Identifier: MIT
// Posting and polling through the libraries, both ends in one process.
#include <cerrno>

#include "testing/verbs_pair.h"

namespace verbatim::test {
namespace {

TEST(Posting, QueueTakesAsManyAsItSays) {
  Device device;
  ASSERT_NE(device.context, nullptr);
  Shape shape;
  shape.cap.max_send_wr = 5;
  Pair pair(device, shape);
  EXPECT_GE(pair.cap.max_send_wr, 5u);
  ibv_sge sge;
  ibv_send_wr wr = pair.write(0, sge, 0, 4096, 8), *bad = nullptr;
  for (uint32_t i = 0; i < pair.cap.max_send_wr; i++) {
    wr.wr_id = i;
    ASSERT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), 0) << i;
  }
  EXPECT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), ENOMEM);
  EXPECT_EQ(bad, &wr);
  for (uint32_t i = 0; i < pair.cap.max_send_wr; i++) EXPECT_EQ(next(pair.cq[0]).wr_id, i);
  EXPECT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), 0);
  EXPECT_EQ(next(pair.cq[0]).status, IBV_WC_SUCCESS);
}

TEST(Posting, RequestsBeforeTheBadOneArePosted) {
  Device device;
  Pair pair(device);
  ibv_sge sge[3];
  ibv_send_wr wr[3];
  for (uint64_t i = 0; i < 3; i++) wr[i] = pair.write(i, sge[i], 0, 4096, 8);
  wr[0].next = &wr[1];
  wr[1].next = &wr[2];
  wr[1].num_sge = static_cast<int>(pair.cap.max_send_sge) + 1;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(pair.qp[0], wr, &bad), ENOMEM);
  EXPECT_EQ(bad, &wr[1]);
  EXPECT_EQ(next(pair.cq[0]).wr_id, 0u);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(pair.cq[0], 1, &wc), 0);
}

TEST(Posting, RefusesWhatTheTypeDoesNotHave) {
  Device device;
  Shape shape;
  shape.type = IBV_QPT_UC;
  Pair pair(device, shape);
  ibv_sge sge;
  ibv_send_wr wr = pair.write(0, sge, 0, 4096, 8), *bad = nullptr;
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_TSO}) {
    wr.opcode = opcode;
    EXPECT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL) << opcode;
  }
}

// Sizes that are not multiples of a block make entries begin everywhere in the ring, and inline data run
// around its end.
TEST(Posting, InlineDataOfAllSizesArrives) {
  Device device;
  Pair pair(device);
  ASSERT_GE(pair.cap.max_inline_data, 64u);
  for (int round = 0; round < 6; round++) {
    for (uint32_t length = 1; length <= pair.cap.max_inline_data; length++) {
      for (uint32_t i = 0; i < length; i++) device.memory[i] = static_cast<uint8_t>(i * 7 + length + round);
      std::memset(device.memory.data() + 4096, 0, 1024);
      ibv_sge sge;
      ibv_send_wr wr = pair.write(length, sge, 0, 4096, length), *bad = nullptr;
      wr.send_flags = IBV_SEND_INLINE;
      ASSERT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), 0);
      ASSERT_EQ(next(pair.cq[0]).status, IBV_WC_SUCCESS);
      ASSERT_EQ(std::memcmp(device.memory.data(), device.memory.data() + 4096, length), 0) << length;
      ASSERT_EQ(device.memory[4096 + length], 0);
    }
  }
  ibv_sge sge;
  ibv_send_wr wr = pair.write(0, sge, 0, 4096, pair.cap.max_inline_data + 1), *bad = nullptr;
  wr.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), ENOMEM);
}

TEST(Posting, AtomicsReturnWhatWasThere) {
  Device device;
  Pair pair(device);
  auto* target = reinterpret_cast<uint64_t*>(device.memory.data() + 4096);
  auto* before = reinterpret_cast<uint64_t*>(device.memory.data());
  *target = 40;
  ibv_sge sge = device.piece(0, 8);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.wr.atomic.remote_addr = device.address(4096);
  wr.wr.atomic.rkey = device.mr->rkey;
  wr.wr.atomic.compare_add = 2;
  ASSERT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), 0);
  ibv_wc wc = next(pair.cq[0]);
  EXPECT_EQ(wc.opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(wc.byte_len, 8u);
  EXPECT_EQ(*before, 40u);
  EXPECT_EQ(*target, 42u);
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic.compare_add = 42;
  wr.wr.atomic.swap = 7;
  ASSERT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), 0);
  EXPECT_EQ(next(pair.cq[0]).opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(*before, 42u);
  EXPECT_EQ(*target, 7u);
}

TEST(Posting, UnsignaledRequestsGiveTheirPlacesBack) {
  Device device;
  Shape shape;
  shape.signal_all = false;
  Pair pair(device, shape);
  ibv_sge sge;
  ibv_send_wr wr = pair.write(0, sge, 0, 4096, 8), *bad = nullptr;
  for (uint32_t i = 1; i < 10 * pair.cap.max_send_wr; i++) {
    const bool last = i % pair.cap.max_send_wr == 0;
    wr.wr_id = i;
    wr.send_flags = last ? IBV_SEND_SIGNALED : 0;
    ASSERT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), 0) << i;
    if (last) {
      ASSERT_EQ(next(pair.cq[0]).wr_id, i);
    }
  }
}

TEST(Posting, ReceiveQueueTakesAsManyAsItSays) {
  Device device;
  Pair pair(device);
  for (uint32_t i = 0; i < pair.cap.max_recv_wr; i++) ASSERT_EQ(pair.receive(1, i, 0, 64), 0);
  EXPECT_EQ(pair.receive(1, 99, 0, 64), ENOMEM);
  ibv_sge sges[8] = {};
  ibv_recv_wr wr{0, nullptr, sges, static_cast<int>(pair.cap.max_recv_sge) + 1}, *bad = nullptr;
  EXPECT_NE(ibv_post_recv(pair.qp[0], &wr, &bad), 0);
  EXPECT_EQ(bad, &wr);
}

TEST(Posting, SharedReceivesAreUsedAndReturned) {
  Device device;
  ibv_srq_init_attr init{};
  init.attr = {7, 2, 0};
  ibv_srq* srq = ibv_create_srq(device.pd, &init);
  ASSERT_NE(srq, nullptr);
  EXPECT_GE(init.attr.max_wr, 7u);
  const auto post = [&](uint64_t wr_id) {
    ibv_sge sge = device.piece(8192 + wr_id % 8 * 64, 64);
    ibv_recv_wr wr{wr_id, nullptr, &sge, 1}, *bad = nullptr;
    return ibv_post_srq_recv(srq, &wr, &bad);
  };
  {
    Shape shape;
    shape.srq = srq;
    Pair pair(device, shape);
    for (uint32_t i = 0; i < init.attr.max_wr; i++) ASSERT_EQ(post(i), 0) << i;
    EXPECT_EQ(post(99), ENOMEM);
    for (uint32_t i = 0; i < 100; i++) {
      device.memory[0] = static_cast<uint8_t>(i);
      ibv_sge sge = device.piece(0, 16);
      ibv_send_wr wr{}, *bad = nullptr;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_SEND_WITH_IMM;
      wr.imm_data = i;
      ASSERT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), 0);
      ASSERT_EQ(next(pair.cq[0]).status, IBV_WC_SUCCESS);
      const ibv_wc wc = next(pair.cq[1]);
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      ASSERT_EQ(wc.wr_id, i);
      ASSERT_EQ(wc.imm_data, i);
      ASSERT_EQ(wc.byte_len, 16u);
      ASSERT_EQ(device.memory[8192 + i % 8 * 64], static_cast<uint8_t>(i));
      ASSERT_EQ(post(i + init.attr.max_wr), 0);
    }
    EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  }
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST(Posting, DatagramSaysWhereItCameFrom) {
  Device device;
  Shape shape;
  shape.type = IBV_QPT_UD;
  Pair pair(device, shape);
  ibv_ah_attr to = self_address(device.context);
  ibv_ah* ah = ibv_create_ah(device.pd, &to);
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(device.pd), EBUSY);
  ASSERT_EQ(pair.receive(1, 5, 8192, 256), 0);
  ibv_sge sge = device.piece(0, 32);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud = {ah, pair.qp[1]->qp_num, 0x11};
  std::memset(device.memory.data(), 0x5a, 32);
  ASSERT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), 0);
  EXPECT_EQ(next(pair.cq[0]).status, IBV_WC_SUCCESS);
  ibv_wc wc = next(pair.cq[1]);
  EXPECT_EQ(wc.byte_len, 40u + 32u);
  EXPECT_EQ(wc.src_qp, pair.qp[0]->qp_num);
  EXPECT_TRUE(wc.wc_flags & IBV_WC_GRH);
  EXPECT_EQ(device.memory[8192 + 40], 0x5a);
  ibv_ah_attr back{};
  auto* grh = reinterpret_cast<ibv_grh*>(device.memory.data() + 8192);
  ASSERT_EQ(ibv_init_ah_from_wc(device.context, 1, &wc, grh, &back), 0);
  EXPECT_EQ(std::memcmp(back.grh.dgid.raw, to.grh.dgid.raw, 16), 0);
  EXPECT_EQ(back.is_global, 1);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST(Posting, NeedsTheObjectsThatRequestsName) {
  Device device;
  Shape datagrams, windows;
  datagrams.type = IBV_QPT_UD;
  windows.operations = IBV_QP_EX_WITH_BIND_MW;
  Pair unaddressed(device, datagrams), binding(device, windows);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_SEND;
  EXPECT_EQ(ibv_post_send(unaddressed.qp[0], &wr, &bad), EINVAL) << "without an address handle";
  EXPECT_EQ(bad, &wr);
  wr.opcode = IBV_WR_BIND_MW;
  EXPECT_EQ(ibv_post_send(binding.qp[0], &wr, &bad), EINVAL) << "without a memory window";
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(unaddressed.qp[0]);
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_set_ud_addr(qp, nullptr, 1, 1);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  qp = ibv_qp_to_qp_ex(binding.qp[0]);
  const ibv_mw_bind_info nothing{};
  ibv_wr_start(qp);
  ibv_wr_bind_mw(qp, nullptr, 1, &nothing);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
}

TEST(Builders, BatchIsPostedInOrder) {
  Device device;
  Pair pair(device);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.qp[0]);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(pair.receive(1, 70, 8192, 64), 0);
  std::memcpy(device.memory.data(), "0123456789abcdef", 16);
  ibv_wr_start(qp);
  qp->wr_id = 1;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp, device.mr->rkey, device.address(4096));
  ibv_sge pieces[2] = {device.piece(8, 8), device.piece(0, 8)};
  ibv_wr_set_sge_list(qp, 2, pieces);
  qp->wr_id = 2;
  ibv_wr_send_imm(qp, 77);
  ibv_data_buf parts[2] = {{device.memory.data() + 4, 4}, {device.memory.data() + 12, 4}};
  ibv_wr_set_inline_data_list(qp, 2, parts);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(next(pair.cq[0]).wr_id, 1u);
  EXPECT_EQ(next(pair.cq[0]).wr_id, 2u);
  const ibv_wc wc = next(pair.cq[1]);
  EXPECT_EQ(wc.wr_id, 70u);
  EXPECT_EQ(wc.imm_data, 77u);
  EXPECT_EQ(wc.byte_len, 8u);
  EXPECT_EQ(std::memcmp(device.memory.data() + 4096, "89abcdef01234567", 16), 0);
  EXPECT_EQ(std::memcmp(device.memory.data() + 8192, "4567cdef", 8), 0);
}

TEST(Builders, AbortAndErrorsPostNothing) {
  Device device;
  Pair pair(device);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.qp[0]);
  qp->wr_flags = IBV_SEND_SIGNALED;
  std::vector<uint8_t> large(pair.cap.max_inline_data + 1);
  for (int round = 0; round < 100; round++) {
    ibv_wr_start(qp);
    ibv_wr_rdma_write(qp, device.mr->rkey, device.address(4096));
    ibv_wr_set_sge(qp, device.mr->lkey, device.address(0), 8);
    if (round % 2 == 0) {
      ibv_wr_abort(qp);
      continue;
    }
    ibv_wr_rdma_write(qp, device.mr->rkey, device.address(4096));
    ibv_wr_set_inline_data(qp, large.data(), large.size());
    ASSERT_EQ(ibv_wr_complete(qp), ENOMEM);
  }
  ibv_wr_start(qp);
  for (uint32_t i = 0; i <= pair.cap.max_send_wr; i++)
    ibv_wr_rdma_write(qp, device.mr->rkey, device.address(4096));
  ASSERT_EQ(ibv_wr_complete(qp), ENOMEM);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(pair.cq[0], 1, &wc), 0);
  ibv_sge sge;
  ibv_send_wr wr = pair.write(8, sge, 0, 4096, 8), *bad = nullptr;
  ASSERT_EQ(ibv_post_send(pair.qp[0], &wr, &bad), 0);
  EXPECT_EQ(next(pair.cq[0]).wr_id, 8u);
}

}  // namespace
}  // namespace verbatim::test
