// SPDX-License-Identifier: MIT
// Objects that commands make and that refer to each other: nothing goes while something needs it, and
// counters count what happens.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <poll.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "abi/prm/counters.h"
#include "abi/prm/domains.h"
#include "abi/prm/queue_pairs.h"
#include "abi/prm/raw_queues.h"
#include "abi/prm/receive_steering.h"
#include "device/connectx/formats.h"
#include "testing/queue_pair_steps.h"
#include "tests/conformance/mail.h"

namespace verbatim::conformance {
namespace {

using prm::Status;

/// A domain, a completion queue, and memory in a umem.
class DevxObjects : public Devx {
 protected:
  void SetUp() override {
    Devx::SetUp();
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    umem = mlx5dv_devx_umem_reg(context, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    ASSERT_TRUE(pd != nullptr && cq != nullptr && umem != nullptr);
    mlx5dv_obj objects{};
    objects.pd = {pd, &pd_shown};
    objects.cq = {cq, &cq_shown};
    ASSERT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_PD | MLX5DV_OBJ_CQ), 0);
  }
  void TearDown() override {
    EXPECT_EQ(mlx5dv_devx_umem_dereg(umem), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  }
  Mail<prm::CreateRq> rq_mail() const {
    Mail<prm::CreateRq> mail;
    const auto queue = mail.in[prm::CreateRqIn::ctx];
    queue.set(prm::Rqc::cqn, cq_shown.cqn);
    queue.set(prm::Rqc::user_index, 0x4321);
    queue.set(prm::Rqc::flush_in_error_en, true);
    const auto wq = queue[prm::Rqc::wq];
    wq.set(prm::Wq::wq_type, prm::WqType::kCyclic);
    wq.set(prm::Wq::pd, pd_shown.pdn);
    wq.set(prm::Wq::log_wq_sz, 3);
    wq.set(prm::Wq::log_wq_stride, 4);
    wq.set(prm::Wq::wq_umem_valid, true);
    wq.set(prm::Wq::wq_umem_id, umem->umem_id);
    wq.set(prm::Wq::dbr_umem_valid, true);
    wq.set(prm::Wq::dbr_umem_id, umem->umem_id);
    wq.set(prm::Wq::dbr_addr, 4096);
    return mail;
  }
  static int move(mlx5dv_devx_obj* queue, uint32_t number, prm::RqState from, prm::RqState to) {
    Mail<prm::ModifyRq> mail;
    mail.in.set(prm::ModifyRqIn::rqn, number);
    mail.in.set(prm::ModifyRqIn::rq_state, from);
    mail.in[prm::ModifyRqIn::ctx].set(prm::Rqc::state, to);
    return mail.modify(queue);
  }
  std::vector<uint8_t> memory = std::vector<uint8_t>(8192);
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  mlx5dv_devx_umem* umem = nullptr;
  mlx5dv_pd pd_shown{};
  mlx5dv_cq cq_shown{};
};

TEST_F(DevxObjects, StayWhileSomethingNeedsThem) {
  auto rq = rq_mail();
  mlx5dv_devx_obj* queue = rq.create(context);
  ASSERT_NE(queue, nullptr) << rq.status();
  const uint32_t number = rq.out[prm::CreateRqOut::rqn];
  Mail<prm::AllocTransportDomain> td;
  mlx5dv_devx_obj* domain = td.create(context);
  Mail<prm::CreateRqt> rqt(8);
  const auto entries = rqt.in[prm::CreateRqtIn::rqt_context];
  entries.set(prm::Rqtc::rqt_max_size, 2);
  entries.set(prm::Rqtc::rqt_actual_size, 2);
  for (size_t i = 0; i < 2; i++) entries.at(prm::Rqtc::rq_num, i).set(prm::RqNum::rq_num, number);
  mlx5dv_devx_obj* table = rqt.create(context);
  ASSERT_NE(table, nullptr) << rqt.status();
  Mail<prm::CreateTir> tir;
  const auto way = tir.in[prm::CreateTirIn::ctx];
  way.set(prm::Tirc::disp_type, prm::TirDispatch::kIndirect);
  way.set(prm::Tirc::indirect_table, rqt.out[prm::CreateRqtOut::rqtn]);
  way.set(prm::Tirc::transport_domain, td.out[prm::AllocTransportDomainOut::transport_domain]);
  mlx5dv_devx_obj* end = tir.create(context);
  ASSERT_NE(end, nullptr) << tir.status();
  for (mlx5dv_devx_obj* needed : {queue, domain, table}) EXPECT_EQ(mlx5dv_devx_obj_destroy(needed), EBUSY);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(umem), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  for (mlx5dv_devx_obj* free : {end, table, queue, domain}) EXPECT_EQ(mlx5dv_devx_obj_destroy(free), 0);
}

TEST_F(DevxObjects, ReceiveQueuesEndWhereTheirMemoryEnds) {
  const auto refused = [this](auto field, uint64_t value) {
    auto mail = rq_mail();
    mail.in[prm::CreateRqIn::ctx][prm::Rqc::wq].set(field, value);
    return mail.create(context) == nullptr ? static_cast<Status>(mail.status()) : Status::kOk;
  };
  EXPECT_EQ(refused(prm::Wq::wq_umem_offset, 8192 - 127), Status::kBadParamErr);
  EXPECT_EQ(refused(prm::Wq::dbr_addr, 8192), Status::kBadParamErr);
  EXPECT_EQ(refused(prm::Wq::log_wq_sz, 14), Status::kBadParamErr);
  EXPECT_EQ(refused(prm::Wq::wq_umem_id, umem->umem_id + 1), Status::kBadResErr);
  EXPECT_EQ(refused(prm::Wq::pd, 0xfffff0), Status::kBadResErr);
}

TEST_F(DevxObjects, ReceiveQueuesFlushWhatTheDoorbellRecordCovers) {
  auto rq = rq_mail();
  mlx5dv_devx_obj* queue = rq.create(context);
  ASSERT_NE(queue, nullptr) << rq.status();
  const uint32_t number = rq.out[prm::CreateRqOut::rqn];
  ASSERT_EQ(move(queue, number, prm::RqState::kRst, prm::RqState::kRdy), 0);
  memory[4099] = 2;  // two entries, big-endian
  ASSERT_EQ(move(queue, number, prm::RqState::kRdy, prm::RqState::kErr), 0);
  const auto* cqe = static_cast<const connectx::ErrorCqe*>(cq_shown.buf);
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ(cqe[i].opcode_owner >> 4, connectx::kCqeReceiveError);
    EXPECT_EQ(cqe[i].syndrome, connectx::kSyndromeFlushed);
    EXPECT_EQ(cqe[i].user_index, 0x4321u);
    EXPECT_EQ(cqe[i].wqe_counter, i);
  }
  EXPECT_EQ(cqe[2].opcode_owner >> 4, connectx::kCqeInvalid);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(queue), 0);
}

TEST_F(DevxObjects, ReceiveQueuesSurviveMemoryThatIsGone) {
  void* page = nullptr;
  ASSERT_EQ(posix_memalign(&page, 4096, 4096), 0);
  mlx5dv_devx_umem* brief = mlx5dv_devx_umem_reg(context, page, 4096, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(brief, nullptr);
  auto rq = rq_mail();
  rq.in[prm::CreateRqIn::ctx][prm::Rqc::wq].set(prm::Wq::dbr_umem_id, brief->umem_id);
  rq.in[prm::CreateRqIn::ctx][prm::Rqc::wq].set(prm::Wq::dbr_addr, 0);
  mlx5dv_devx_obj* queue = rq.create(context);
  ASSERT_NE(queue, nullptr);
  const uint32_t number = rq.out[prm::CreateRqOut::rqn];
  EXPECT_EQ(mprotect(page, 4096, PROT_NONE), 0);
  EXPECT_EQ(move(queue, number, prm::RqState::kRst, prm::RqState::kRdy), 0);
  EXPECT_EQ(move(queue, number, prm::RqState::kRdy, prm::RqState::kErr), 0);
  EXPECT_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(queue), 0);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(brief), 0);
  free(page);
}

TEST_F(DevxObjects, AreMadeAndAskedByTheirOwnKind) {
  Mail<prm::AllocXrcd> xrcd;
  mlx5dv_devx_obj* domain = xrcd.create(context);
  ASSERT_NE(domain, nullptr);
  EXPECT_NE(xrcd.out[prm::AllocXrcdOut::xrcd], 0u);
  Mail<prm::QueryRq> query;
  query.in.set(prm::QueryRqIn::rqn, xrcd.out[prm::AllocXrcdOut::xrcd]);
  EXPECT_EQ(query.query(domain), EINVAL);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(domain), 0);
}

TEST_F(Devx, LeavesAllKindsOfObjectsToTheCloseOfTheDevice) {
  Mail<prm::AllocTransportDomain> td;
  ASSERT_NE(td.create(context), nullptr);
  Mail<prm::CreateTis> tis;
  tis.in[prm::CreateTisIn::ctx].set(prm::Tisc::transport_domain,
                                    td.out[prm::AllocTransportDomainOut::transport_domain]);
  ASSERT_NE(tis.create(context), nullptr) << tis.status();
}

/// A queue pair that talks to itself, and counts for a set.
class Counting : public DevxObjects {
 protected:
  void SetUp() override {
    DevxObjects::SetUp();
    set = alloc.create(context);
    ASSERT_NE(set, nullptr);
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq;
    attributes.cap = {8, 8, 1, 1, 64};
    attributes.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &attributes);
    ASSERT_NE(qp, nullptr);
  }
  void TearDown() override {
    if (qp != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    EXPECT_EQ(mlx5dv_devx_obj_destroy(set), 0);
    DevxObjects::TearDown();
  }
  uint32_t number() const { return alloc.out[prm::AllocQCounterOut::counter_set_id]; }
  /// RESET to RTS by command and by verbs, counting for the set.
  void connect() {
    Mail<prm::Rst2initQp> init;
    init.in.set(prm::Rst2initQpIn::qpn, qp->qp_num);
    const auto wanted = init.in[prm::Rst2initQpIn::qpc];
    wanted.set(prm::Qpc::counter_set_id, number());
    wanted.set(prm::Qpc::pm_state, prm::QpMigration::kMigrated);
    wanted[prm::Qpc::primary_address_path].set(prm::Ads::vhca_port_num, 1);
    ASSERT_EQ(init.modify(qp), 0) << init.status();
    test::Connection self;
    ASSERT_EQ(ibv_query_gid(context, 1, 0, &self.gid), 0);
    self.qpn = qp->qp_num;
    self.rnr_retries = 2;
    ASSERT_EQ(test::step_to_rtr(qp, self), 0);
    ASSERT_EQ(test::step_to_rts(qp, self), 0);
  }
  ibv_wc_status send() {
    ibv_send_wr wr{}, *bad = nullptr;
    uint64_t word = 1;
    ibv_sge piece{reinterpret_cast<uint64_t>(&word), sizeof word, 0};
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    ibv_wc done{};
    for (int i = 0; i < 5000; i++) {
      if (ibv_poll_cq(cq, 1, &done) == 1) return done.status;
      poll(nullptr, 0, 1);
    }
    return IBV_WC_GENERAL_ERR;
  }
  uint32_t naks(bool clear = false) {
    Mail<prm::QueryQCounter> query;
    query.in.set(prm::QueryQCounterIn::counter_set_id, number());
    query.in.set(prm::QueryQCounterIn::clear, clear);
    EXPECT_EQ(query.query(set), 0) << query.status();
    return query.out[prm::QueryQCounterOut::rnr_nak_retry_err];
  }
  uint64_t sent_bytes() {
    Mail<prm::QueryVportCounter> query;
    EXPECT_EQ(query.general(context), 0);
    return query.out[prm::QueryVportCounterOut::transmitted_ib_unicast][prm::TrafficCounter::octets];
  }
  Mail<prm::AllocQCounter> alloc;
  mlx5dv_devx_obj* set = nullptr;
  ibv_qp* qp = nullptr;
};

TEST_F(Counting, TellsHowOftenAPeerWasNotReady) {
  connect();
  EXPECT_EQ(naks(), 0u);
  EXPECT_EQ(send(), IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(naks(), 3u) << "the first and two retries";
  EXPECT_EQ(naks(true), 3u);
  EXPECT_EQ(naks(), 0u) << "cleared";
}

TEST_F(Counting, KeepsWhatIsGone) {
  connect();
  EXPECT_EQ(send(), IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(set), EBUSY) << "a queue pair counts for it";
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qp = nullptr;
  EXPECT_EQ(naks(), 3u);
}

TEST_F(Counting, TellsWhatWentThroughThePort) {
  connect();
  const uint64_t before = sent_bytes();
  ibv_recv_wr receive{}, *bad = nullptr;
  std::array<uint64_t, 1> room{};
  ibv_mr* mr = ibv_reg_mr(pd, room.data(), sizeof room, IBV_ACCESS_LOCAL_WRITE);
  ibv_sge piece{reinterpret_cast<uint64_t>(room.data()), sizeof room, mr->lkey};
  receive.sg_list = &piece;
  receive.num_sge = 1;
  ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
  EXPECT_EQ(send(), IBV_WC_SUCCESS);
  EXPECT_EQ(sent_bytes() - before, 8u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qp = nullptr;
  EXPECT_EQ(sent_bytes() - before, 8u) << "although the queue pair is gone";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

}  // namespace
}  // namespace verbatim::conformance
