// SPDX-License-Identifier: MIT
// What one user context of a device has made is not there for another: whoever owns the device says in each
// mailbox for whom it is.
#include <gtest/gtest.h>

#include "abi/prm/completion_queues.h"
#include "abi/prm/crypto.h"
#include "abi/prm/domains.h"
#include "abi/prm/memory.h"
#include "abi/prm/queue_pairs.h"
#include "abi/prm/shared_receive.h"
#include "device/connectx/connectx_hca.h"
#include "testing/engine_world.h"
#include "testing/mailboxes.h"

namespace verbatim::testing {
namespace {

using prm::Status;

struct Deaf final : hw::EventSink {
  void on_completion(hw::Cq&) override {}
  void on_async(hw::AsyncEvent, void*) override {}
};

/// A command of a user context.
template <class Spec>
struct Mail : test::Mailboxes<Spec> {
  using Base = test::Mailboxes<Spec>;
  using Base::Base, Base::got, Base::sent;
  Status send(hw::Hca& hca, uint32_t uid) {
    prm::Writer<prm::MboxIn>(sent).set(prm::MboxIn::uid, uid);
    hca.execute(sent, got);
    return prm::View<prm::MboxOut>(got).template as<Status>(prm::MboxOut::status);
  }
};

/// A device with two user contexts; the first has a domain, a UAR page and a umem.
struct UserContexts : ::testing::Test {
  ManualClock clock;
  World world;
  Node node{world, 1, clock};
  Deaf sink;
  connectx::ConnectxHca hca{node.engine(), sink, {"mlx5_0"}};
  alignas(4096) std::byte memory[2 * 4096];
  uint32_t one = 0, other = 0, umem = 0, shared = 0;
  hw::Umem* made_by_host = nullptr;

  void SetUp() override {
    for (uint32_t* uid : {&one, &other}) {
      Mail<prm::CreateUctx> mail;
      ASSERT_EQ(mail.send(hca, 0), Status::kOk);
      *uid = mail.out[prm::CreateUctxOut::uid];
    }
    Mail<prm::CreateUmem> mail(sizeof(uint64_t) * 2);
    const auto pages = mail.in[prm::CreateUmemIn::umem];
    pages.set(prm::Umem::num_of_mtt, 2);
    for (size_t i = 0; i < 2; i++) {
      const auto address = reinterpret_cast<uint64_t>(memory + i * 4096);
      const auto page = pages.at(prm::Umem::mtt, i);
      page.set(prm::Mtt::ptag_63_32, address >> 32);
      page.set(prm::Mtt::ptag_31_8, (address & 0xffffffff) >> 8);
      page.set(prm::Mtt::wr_en, true);
    }
    ASSERT_EQ(mail.send(hca, one), Status::kOk);
    umem = mail.out[prm::CreateUmemOut::umem_id];
    auto for_all = hca.create_umem({reinterpret_cast<uint64_t>(memory), sizeof memory, engine::kLocalWrite});
    ASSERT_TRUE(for_all.ok());
    made_by_host = *for_all;
    shared = made_by_host->number;
  }
  uint32_t pd(uint32_t uid) {
    Mail<prm::AllocPd> mail;
    EXPECT_EQ(mail.send(hca, uid), Status::kOk);
    return mail.out[prm::AllocPdOut::pd];
  }
  uint32_t uar(uint32_t uid) {
    Mail<prm::AllocUar> mail;
    EXPECT_EQ(mail.send(hca, uid), Status::kOk);
    return mail.out[prm::AllocUarOut::uar];
  }
  Status create_cq(uint32_t uid, uint32_t ring, uint32_t record, uint32_t* cqn = nullptr) {
    Mail<prm::CreateCq> mail;
    mail.in.set(prm::CreateCqIn::cq_umem_id, ring);
    const auto context = mail.in[prm::CreateCqIn::cq_context];
    context.set(prm::Cqc::dbr_umem_id, record);
    context.set(prm::Cqc::dbr_addr, 4096);
    context.set(prm::Cqc::log_cq_size, 4);
    context.set(prm::Cqc::c_eqn_or_apu_element, 1);
    context.set(prm::Cqc::uar_page, uar(uid));
    const Status status = mail.send(hca, uid);
    if (cqn != nullptr) *cqn = mail.out[prm::CreateCqOut::cqn];
    return status;
  }
  Status create_qp(uint32_t uid, uint32_t cqn, uint32_t ring) {
    Mail<prm::CreateQp> mail;
    mail.in.set(prm::CreateQpIn::wq_umem_id, ring);
    const auto context = mail.in[prm::CreateQpIn::qpc];
    context.set(prm::Qpc::pd, pd(uid));
    context.set(prm::Qpc::cqn_snd, cqn);
    context.set(prm::Qpc::cqn_rcv, cqn);
    context.set(prm::Qpc::uar_page, uar(uid));
    context.set(prm::Qpc::log_sq_size, 2);
    context.set(prm::Qpc::dbr_umem_id, shared);
    context.set(prm::Qpc::dbr_addr, 4096);
    return mail.send(hca, uid);
  }
  Status create_rmp(uint32_t uid, uint32_t ring) {
    Mail<prm::CreateRmp> mail;
    const auto queue = mail.in[prm::CreateRmpIn::ctx][prm::Rmpc::wq];
    queue.set(prm::Wq::pd, pd(uid));
    queue.set(prm::Wq::log_wq_sz, 4);
    queue.set(prm::Wq::log_wq_stride, 5);
    queue.set(prm::Wq::wq_umem_id, ring);
    queue.set(prm::Wq::dbr_umem_id, shared);
    queue.set(prm::Wq::dbr_addr, 4096);
    return mail.send(hca, uid);
  }
  Status create_mkey(uint32_t uid, uint32_t named) {
    Mail<prm::CreateMkey> mail;
    mail.in.set(prm::CreateMkeyIn::mkey_umem_id, named);
    mail.in.set(prm::CreateMkeyIn::mkey_umem_valid, true);
    const auto key = mail.in[prm::CreateMkeyIn::memory_key_mkey_entry];
    key.set(prm::Mkc::access_mode_1_0, prm::MkeyAccessMode::kMtt);
    key.set(prm::Mkc::pd, pd(uid));
    key.set(prm::Mkc::lr, true);
    key.set(prm::Mkc::qpn, 0xffffff);
    key.set(prm::Mkc::len, 4096);
    return mail.send(hca, uid);
  }
};

TEST_F(UserContexts, UmemsAreTheirMakers) {
  uint32_t cqn = 0;
  EXPECT_EQ(create_cq(other, umem, shared), Status::kBadResErr);
  EXPECT_EQ(create_cq(other, shared, umem), Status::kBadResErr);
  EXPECT_EQ(create_cq(one, umem, umem), Status::kOk);
  ASSERT_EQ(create_cq(other, shared, shared, &cqn), Status::kOk) << "the host side's is for all";
  EXPECT_EQ(create_qp(other, cqn, umem), Status::kBadResErr);
  EXPECT_EQ(create_qp(other, cqn, shared), Status::kOk);
  EXPECT_EQ(create_rmp(other, umem), Status::kBadResErr);
  EXPECT_EQ(create_rmp(one, umem), Status::kOk);
  EXPECT_EQ(create_mkey(other, umem), Status::kBadResErr);
  EXPECT_EQ(create_mkey(one, umem), Status::kOk);
}

TEST_F(UserContexts, StayWhileTheirEncryptionKeysDo) {
  const auto destroy = [this] {
    Mail<prm::DestroyUctx> mail;
    mail.in.set(prm::DestroyUctxIn::uid, other);
    return mail.send(hca, 0);
  };
  Mail<prm::CreateDek> create;
  const auto key = create.in[prm::CreateEncryptionKeyObjIn::key_obj];
  key.set(prm::EncryptionKeyObj::key_purpose, prm::DekPurpose::kAesXts);
  key.set(prm::EncryptionKeyObj::key_size, prm::DekSize::k128);
  hw::Pd* domain = *hca.create_pd();
  key.set(prm::EncryptionKeyObj::pd, domain->number);
  ASSERT_EQ(create.send(hca, other), Status::kOk);
  EXPECT_EQ(destroy(), Status::kBadResStateErr);
  Mail<prm::DestroyDek> end;
  end.in.set(prm::GeneralObjInCmdHdr::obj_id, create.out[prm::GeneralObjOutCmdHdr::obj_id]);
  EXPECT_EQ(end.send(hca, one), Status::kBadResErr) << "it is another's";
  ASSERT_EQ(end.send(hca, other), Status::kOk);
  EXPECT_EQ(destroy(), Status::kOk);
}

}  // namespace
}  // namespace verbatim::testing
