// SPDX-License-Identifier: MIT
// Command mailboxes, as programs send them to a ConnectX.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "abi/prm/capabilities.h"
#include "abi/prm/domains.h"
#include "abi/prm/general.h"
#include "abi/prm/memory.h"
#include "abi/prm/queue_pairs.h"
#include "abi/prm/shared_receive.h"
#include "testing/queue_pair_steps.h"
#include "tests/conformance/mail.h"

namespace verbatim::conformance {
namespace {

using prm::Writer;

TEST(DevxContext, TakesCommandsWithTheFlagOrWithout) {
  EXPECT_EQ(open_with(1u << 7), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_context* plain = open_with(0);
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(Mail<prm::Nop>().general(plain), 0);
  mlx5dv_devx_obj* pd = Mail<prm::AllocPd>().create(plain);
  ASSERT_NE(pd, nullptr);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(pd), 0);
  mlx5dv_devx_uar* page = mlx5dv_devx_alloc_uar(plain, MLX5DV_UAR_ALLOC_TYPE_BF);
  EXPECT_NE(page, nullptr);
  mlx5dv_devx_free_uar(page);
  EXPECT_EQ(ibv_close_device(plain), 0);
}

TEST_F(Devx, AnswersGeneralCommands) {
  Mail<prm::QueryHcaCap> mail;
  ASSERT_EQ(mail.general(context), 0);
  EXPECT_EQ(mail.status(), 0u);
  ibv_device_attr limits;
  ASSERT_EQ(ibv_query_device(context, &limits), 0);
  const auto cap = mail.out[prm::QueryHcaCapOut::capability][prm::HcaCapUnion::cmd_hca_cap];
  EXPECT_EQ(1 << cap[prm::CmdHcaCap::log_max_cq], limits.max_cq);
  EXPECT_EQ(cap[prm::CmdHcaCap::local_ca_ack_delay], limits.local_ca_ack_delay);
  EXPECT_EQ(Mail<prm::Nop>().general(context), 0);
}

TEST_F(Devx, TakesOnlyGeneralCommandsAsSuch) {
  EXPECT_EQ(Mail<prm::AllocPd>().general(context), EINVAL);
  EXPECT_EQ(Mail<prm::QueryQp>().general(context), EINVAL);
  Mail<prm::Nop> unknown;
  unknown.in.set(prm::NopIn::opcode, 0x9ff);
  EXPECT_EQ(unknown.general(context), EINVAL);
  uint8_t box[16] = {0x04, 0x0d};
  EXPECT_EQ(mlx5dv_devx_general_cmd(context, box, 8, box, sizeof box), EINVAL);
  EXPECT_EQ(mlx5dv_devx_general_cmd(context, box, sizeof box, box, 8), EINVAL);
  EXPECT_EQ(mlx5dv_devx_general_cmd(context, box, 1 << 16, box, sizeof box), EINVAL);
}

TEST_F(Devx, SaysInTheMailboxWhyTheDeviceRefuses) {
  Mail<prm::Nop> beyond;  // in the range that every program may send
  beyond.in.set(prm::NopIn::opcode, 0xc7f);
  EXPECT_EQ(beyond.general(context), EREMOTEIO);
  EXPECT_EQ(beyond.status(), static_cast<uint32_t>(prm::Status::kBadOpErr));
  EXPECT_NE(beyond.syndrome(), 0u);
  Mail<prm::QueryHcaCap> group;
  group.in.set(prm::QueryHcaCapIn::op_mod, 0x3ff0);
  EXPECT_EQ(group.general(context), EREMOTEIO);
  EXPECT_EQ(group.status(), static_cast<uint32_t>(prm::Status::kBadParamErr));
  const uint32_t first = group.syndrome();
  EXPECT_EQ(group.general(context), EREMOTEIO);
  EXPECT_EQ(group.syndrome(), first);
}

TEST_F(Devx, MakesAndDestroysObjects) {
  Mail<prm::AllocPd> first, second;
  mlx5dv_devx_obj* one = first.create(context);
  mlx5dv_devx_obj* two = second.create(context);
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_NE(first.out[prm::AllocPdOut::pd], second.out[prm::AllocPdOut::pd]);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(one), 0);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(two), 0);
  Mail<prm::AllocTransportDomain> domain;
  mlx5dv_devx_obj* three = domain.create(context);
  ASSERT_NE(three, nullptr);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(three), 0);
}

TEST_F(Devx, CreatesWithCreatingCommandsOnly) {
  EXPECT_EQ(Mail<prm::QueryQp>().create(context), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Mail<prm::AllocUar>().create(context), nullptr);
  EXPECT_EQ(errno, EINVAL);
  Mail<prm::CreateSrq> not_offered;
  EXPECT_EQ(not_offered.create(context), nullptr);
  EXPECT_EQ(errno, EREMOTEIO);
  EXPECT_EQ(not_offered.status(), static_cast<uint32_t>(prm::Status::kBadOpErr));
}

TEST_F(Devx, MakesOneSignatureValueAtATime) {
  Mail<prm::AllocPd> domain;
  mlx5dv_devx_obj* pd = domain.create(context);
  ASSERT_NE(pd, nullptr);
  Mail<prm::CreatePsv> values;
  values.in.set(prm::CreatePsvIn::pd, domain.out[prm::AllocPdOut::pd]);
  values.in.set(prm::CreatePsvIn::num_psv, 2);
  EXPECT_EQ(values.create(context), nullptr);
  EXPECT_EQ(errno, EINVAL);
  values.in.set(prm::CreatePsvIn::num_psv, 1);
  mlx5dv_devx_obj* value = values.create(context);
  ASSERT_NE(value, nullptr);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(value), 0);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(pd), 0);
}

TEST_F(Devx, KeepsObjectsApart) {
  mlx5dv_devx_obj* pd = Mail<prm::AllocPd>().create(context);
  ASSERT_NE(pd, nullptr);
  EXPECT_EQ(Mail<prm::QueryQp>().query(pd), EINVAL) << "no queue pair";
  EXPECT_EQ(Mail<prm::Rst2initQp>().modify(pd), EINVAL);
  EXPECT_EQ(Mail<prm::Nop>().query(pd), EINVAL);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(pd), 0);
}

TEST_F(Devx, LeavesObjectsToTheCloseOfTheDevice) {
  static mlx5dv_devx_obj* kept;  // the handle of what is gone then
  kept = Mail<prm::AllocPd>().create(context);
  ASSERT_NE(kept, nullptr);
}

class DevxQp : public Devx {
 protected:
  void SetUp() override {
    Devx::SetUp();
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq;
    attributes.cap = {8, 8, 1, 1, 0};
    attributes.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &attributes);
    ASSERT_NE(qp, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  }
  template <class Spec>
  Mail<Spec> mail() const {
    Mail<Spec> made;
    made.in.set(Spec::In::qpn, qp->qp_num);
    return made;
  }
  ibv_qp_state state() const {
    ibv_qp_attr attributes;
    ibv_qp_init_attr initial;
    EXPECT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &initial), 0);
    return attributes.qp_state;
  }
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
};

TEST_F(DevxQp, IsShownAsVerbsMadeIt) {
  auto query = mail<prm::QueryQp>();
  ASSERT_EQ(query.query(qp), 0);
  const auto context_shown = query.out[prm::QueryQpOut::qpc];
  EXPECT_EQ(context_shown.as<prm::QpState>(prm::Qpc::state), prm::QpState::kRst);
  EXPECT_EQ(context_shown.as<prm::QpService>(prm::Qpc::st), prm::QpService::kRc);
  EXPECT_EQ(1u << context_shown[prm::Qpc::log_rq_size], 8u);
  mlx5dv_obj objects{};
  mlx5dv_pd pd_shown{};
  mlx5dv_cq cq_shown{};
  objects.pd = {pd, &pd_shown};
  objects.cq = {cq, &cq_shown};
  ASSERT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_PD | MLX5DV_OBJ_CQ), 0);
  EXPECT_EQ(context_shown[prm::Qpc::pd], pd_shown.pdn);
  EXPECT_EQ(context_shown[prm::Qpc::cqn_snd], cq_shown.cqn);
}

TEST_F(DevxQp, MovesByCommand) {
  auto init = mail<prm::Rst2initQp>();
  const auto wanted = init.in[prm::Rst2initQpIn::qpc];
  wanted.set(prm::Qpc::rwe, true);
  wanted.set(prm::Qpc::pm_state, prm::QpMigration::kMigrated);
  wanted[prm::Qpc::primary_address_path].set(prm::Ads::vhca_port_num, 1);
  ASSERT_EQ(init.modify(qp), 0) << init.status();
  EXPECT_EQ(state(), IBV_QPS_INIT);
  EXPECT_EQ(qp->state, IBV_QPS_INIT);
  uint64_t word = 0;
  ibv_mr* mr = ibv_reg_mr(pd, &word, sizeof word, IBV_ACCESS_LOCAL_WRITE);
  ibv_sge piece{reinterpret_cast<uint64_t>(&word), sizeof word, mr->lkey};
  ibv_recv_wr receive{7, nullptr, &piece, 1}, *bad = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad), 0) << "the host's side knows";
  ASSERT_EQ(mail<prm::Qp2err>().modify(qp), 0);
  EXPECT_EQ(state(), IBV_QPS_ERR);
  ibv_wc flushed{};
  for (int i = 0; i < 1000 && ibv_poll_cq(cq, 1, &flushed) == 0; i++) poll(nullptr, 0, 1);
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(mail<prm::Qp2rst>().modify(qp), 0);
  EXPECT_EQ(state(), IBV_QPS_RESET);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(DevxQp, RefusesWhatTheStateForbidsAndOtherNumbers) {
  auto rts = mail<prm::Rtr2rtsQp>();
  EXPECT_EQ(rts.modify(qp), EREMOTEIO);
  EXPECT_NE(rts.status(), 0u);
  EXPECT_EQ(state(), IBV_QPS_RESET);
  auto other = mail<prm::QueryQp>();
  other.in.set(prm::QueryQpIn::qpn, qp->qp_num + 1);
  EXPECT_EQ(other.query(qp), EINVAL);
  EXPECT_EQ(mail<prm::Qp2err>().query(qp), EINVAL) << "changes, does not ask";
}

/// A key over memory that lies in a umem, and a queue pair that is connected to itself.
class DevxKey : public DevxQp {
 protected:
  static constexpr size_t kBytes = 8192;
  static constexpr uint8_t kVariant = 0x5a;
  static constexpr uint64_t kStart = 0x100000;

  void SetUp() override {
    DevxQp::SetUp();
    umem = mlx5dv_devx_umem_reg(context, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(umem, nullptr);
    mlx5dv_obj objects{};
    mlx5dv_pd shown{};
    objects.pd = {pd, &shown};
    ASSERT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_PD), 0);
    create.in.set(prm::CreateMkeyIn::mkey_umem_valid, true);
    create.in.set(prm::CreateMkeyIn::mkey_umem_id, umem->umem_id);
    key.set(prm::Mkc::access_mode_1_0, prm::MkeyAccessMode::kMtt);
    key.set(prm::Mkc::qpn, 0xffffff);
    key.set(prm::Mkc::mkey_7_0, kVariant);
    key.set(prm::Mkc::pd, shown.pdn);
    key.set(prm::Mkc::start_addr, kStart);
    key.set(prm::Mkc::len, kBytes);
    for (const auto right : {prm::Mkc::lw, prm::Mkc::lr, prm::Mkc::rw, prm::Mkc::rr}) key.set(right, true);
  }
  void TearDown() override {
    EXPECT_EQ(mlx5dv_devx_umem_dereg(umem), 0);
    DevxQp::TearDown();
  }
  uint32_t index() const { return create.out[prm::CreateMkeyOut::mkey_index]; }
  Mail<prm::QueryMkey> question() const {
    Mail<prm::QueryMkey> query;
    query.in.set(prm::QueryMkeyIn::mkey_index, index());
    return query;
  }
  void connect() {
    test::Connection self;
    ASSERT_EQ(ibv_query_gid(context, 1, 0, &self.gid), 0);
    self.qpn = qp->qp_num;
    self.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    ASSERT_EQ(test::step_to_init(qp, self), 0);
    ASSERT_EQ(test::step_to_rtr(qp, self), 0);
    ASSERT_EQ(test::step_to_rts(qp, self), 0);
  }
  /// Writes 64 bytes from the start of the key's memory to `to` in it.
  ibv_wc_status write(uint64_t to, uint32_t keys) {
    ibv_sge piece{kStart, 64, keys};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = kStart + to;
    wr.wr.rdma.rkey = keys;
    EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    ibv_wc done{};
    for (int i = 0; i < 5000; i++) {
      if (ibv_poll_cq(cq, 1, &done) == 1) return done.status;
      poll(nullptr, 0, 1);
    }
    return IBV_WC_GENERAL_ERR;
  }

  std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);
  mlx5dv_devx_umem* umem = nullptr;
  Mail<prm::CreateMkey> create;
  Writer<prm::Mkc> key = create.in[prm::CreateMkeyIn::memory_key_mkey_entry];
};

TEST_F(DevxKey, MovesDataWhileItLives) {
  connect();
  mlx5dv_devx_obj* object = create.create(context);
  ASSERT_NE(object, nullptr) << create.status();
  memory[5] = 0x77;
  EXPECT_EQ(write(4096, index() << 8 | kVariant), IBV_WC_SUCCESS);
  EXPECT_EQ(memory[4096 + 5], 0x77);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(umem), EBUSY) << "the key lies in it";
  EXPECT_EQ(mlx5dv_devx_obj_destroy(object), 0);
  EXPECT_EQ(write(0, index() << 8 | kVariant), IBV_WC_LOC_PROT_ERR);
}

TEST_F(DevxKey, EndsWhereItsMemoryEnds) {
  connect();
  mlx5dv_devx_obj* object = create.create(context);
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(write(kBytes - 63, index() << 8 | kVariant), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(object), 0);
  create.in.set(prm::CreateMkeyIn::mkey_umem_offset, 4096);
  EXPECT_EQ(create.create(context), nullptr) << "beyond the umem";
  EXPECT_EQ(create.status(), static_cast<uint32_t>(prm::Status::kBadParamErr));
  key.set(prm::Mkc::len, 4096);
  object = create.create(context);
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(object), 0);
}

TEST_F(DevxKey, IsRefusedWithoutUmemOrDomain) {
  create.in.set(prm::CreateMkeyIn::mkey_umem_id, umem->umem_id + 1);
  EXPECT_EQ(create.create(context), nullptr);
  EXPECT_EQ(errno, EREMOTEIO);
  EXPECT_EQ(create.status(), static_cast<uint32_t>(prm::Status::kBadResErr));
  create.in.set(prm::CreateMkeyIn::mkey_umem_id, umem->umem_id);
  key.set(prm::Mkc::pd, 0xfffff0);
  EXPECT_EQ(create.create(context), nullptr);
  EXPECT_EQ(create.status(), static_cast<uint32_t>(prm::Status::kBadResErr));
}

TEST_F(DevxKey, AnswersQueriesAtOnceAndLater) {
  mlx5dv_devx_obj* object = create.create(context);
  ASSERT_NE(object, nullptr);
  auto query = question();
  ASSERT_EQ(query.query(object), 0);
  EXPECT_EQ(query.out[prm::QueryMkeyOut::memory_key_mkey_entry][prm::Mkc::start_addr], kStart);

  mlx5dv_devx_cmd_comp* completions = mlx5dv_devx_create_cmd_comp(context);
  ASSERT_NE(completions, nullptr);
  pollfd readable{completions->fd, POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 0), 0);
  const auto ask = [&](uint64_t id) {
    return mlx5dv_devx_obj_query_async(object, query.sent.data(), query.sent.size(), query.got.size(), id,
                                       completions);
  };
  ASSERT_EQ(ask(11), 0);
  ASSERT_EQ(ask(12), 0);
  EXPECT_EQ(poll(&readable, 1, 0), 1);
  std::vector<uint8_t> room(sizeof(mlx5dv_devx_async_cmd_hdr) + query.got.size());
  auto* answer = reinterpret_cast<mlx5dv_devx_async_cmd_hdr*>(room.data());
  EXPECT_EQ(mlx5dv_devx_get_async_cmd_comp(completions, answer, room.size() - 1), ENOSPC) << "it stays";
  for (const uint64_t id : {11, 12}) {
    ASSERT_EQ(mlx5dv_devx_get_async_cmd_comp(completions, answer, room.size()), 0);
    EXPECT_EQ(answer->wr_id, id);
    EXPECT_TRUE(std::equal(query.got.begin(), query.got.end(), answer->out_data));
  }
  EXPECT_EQ(poll(&readable, 1, 0), 0);
  query.in.set(prm::QueryMkeyIn::mkey_index, index() + 1);
  EXPECT_EQ(ask(13), EINVAL) << "another object";
  mlx5dv_devx_destroy_cmd_comp(completions);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(object), 0);
}

TEST_F(DevxKey, LimitsWhatWaitsToBeTaken) {
  mlx5dv_devx_obj* object = create.create(context);
  ASSERT_NE(object, nullptr);
  const auto query = question();
  mlx5dv_devx_cmd_comp* completions = mlx5dv_devx_create_cmd_comp(context);
  int taken = 0, error = 0;
  while (error == 0 && ++taken < 100)
    error = mlx5dv_devx_obj_query_async(object, query.sent.data(), query.sent.size(), 60000, 1, completions);
  EXPECT_EQ(error, EAGAIN);
  EXPECT_EQ(taken, 18) << "a mebibyte";
  mlx5dv_devx_destroy_cmd_comp(completions);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(object), 0);
}

TEST_F(Devx, RegistersMemory) {
  std::vector<uint8_t> memory(10000);
  mlx5dv_devx_umem* one = mlx5dv_devx_umem_reg(context, memory.data() + 1, 5000, IBV_ACCESS_LOCAL_WRITE);
  mlx5dv_devx_umem* two = mlx5dv_devx_umem_reg(context, memory.data(), memory.size(), 0);
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_NE(one->umem_id, two->umem_id);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(one), 0);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(two), 0);
}

TEST_F(Devx, RegistersOnlyMemoryThatIsThere) {
  void* gap = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto refuses = [this, gap](size_t bytes, uint32_t access, int error) {
    errno = 0;
    return mlx5dv_devx_umem_reg(context, gap, bytes, access) == nullptr && errno == error;
  };
  EXPECT_TRUE(refuses(4096, IBV_ACCESS_LOCAL_WRITE, EFAULT)) << "read only";
  EXPECT_TRUE(refuses(0, 0, EINVAL));
  EXPECT_TRUE(refuses(4096, IBV_ACCESS_REMOTE_WRITE, EINVAL)) << "without local write";
  EXPECT_TRUE(refuses(4096, IBV_ACCESS_MW_BIND, EINVAL));
  munmap(static_cast<char*>(gap) + 4096, 4096);
  EXPECT_TRUE(refuses(8192, 0, EFAULT));
  mlx5dv_devx_umem_in wanted{gap, 4096, 0, 0xfff, 0, -1};
  EXPECT_EQ(mlx5dv_devx_umem_reg_ex(context, &wanted), nullptr) << "no page size";
  EXPECT_EQ(errno, EINVAL);
  wanted.pgsz_bitmap = 4096;
  wanted.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
  EXPECT_EQ(mlx5dv_devx_umem_reg_ex(context, &wanted), nullptr);
  EXPECT_EQ(errno, EBADF);
  wanted.comp_mask = 1u << 20;
  EXPECT_EQ(mlx5dv_devx_umem_reg_ex(context, &wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  wanted.comp_mask = 0;
  mlx5dv_devx_umem* umem = mlx5dv_devx_umem_reg_ex(context, &wanted);
  ASSERT_NE(umem, nullptr);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(umem), 0);
  munmap(gap, 4096);
}

TEST_F(Devx, GivesDoorbellPagesWithNumbers) {
  mlx5dv_devx_uar* one = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_BF);
  mlx5dv_devx_uar* two = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC);
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_NE(one->page_id, two->page_id);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one->base_addr) % 4096, 0u);
  EXPECT_EQ(static_cast<char*>(one->reg_addr) - static_cast<char*>(one->base_addr), 0x800);
  mlx5dv_devx_uar* dedicated = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED);
  ASSERT_NE(dedicated, nullptr);
  for (mlx5dv_devx_uar* each : {one, two, dedicated}) mlx5dv_devx_free_uar(each);
  EXPECT_EQ(mlx5dv_devx_alloc_uar(context, 0x70), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace verbatim::conformance
