// SPDX-License-Identifier: MIT
// The owner of a device drains a DC target before it destroys it: DRAIN_DCT, which no call of direct verbs
// may send.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "abi/prm/domains.h"
#include "abi/prm/dynamic_connections.h"
#include "abi/prm/events.h"
#include "device/connectx/connectx_hca.h"
#include "testing/engine_world.h"
#include "testing/mailboxes.h"

namespace verbatim::testing {
namespace {

using prm::Event;
using prm::Status;

constexpr uint64_t kKey = 0x1122334455667788;

struct Listener final : hw::EventSink {
  void on_completion(hw::Cq&) override {}
  void on_async(hw::AsyncEvent, void*) override {}
  void on_device_event(const hw::DeviceEvent& event) override { told.push_back(event); }
  std::vector<hw::DeviceEvent> told;
};

struct DctDrain : ::testing::Test {
  ManualClock clock;
  World world;
  Node node{world, 1, clock};
  Listener sink;
  connectx::ConnectxHca hca{node.engine(), sink, {"mlx5_0"}};
  alignas(4096) std::array<std::byte, 4096> events{}, cq_ring{}, srq_ring{};
  uint32_t cq_record[2] = {}, srq_record[2] = {};
  hw::Pd* pd = nullptr;
  hw::Cq* cq = nullptr;
  hw::Srq* srq = nullptr;
  uint32_t dctn = 0;

  template <class Spec>
  Status send(test::Mailboxes<Spec>& mail) {
    prm::Writer<prm::MboxIn>(mail.sent).set(prm::MboxIn::uid, hw::Hca::kUserContext);
    hca.execute(mail.sent, mail.got);
    return prm::View<prm::MboxOut>(mail.got).template as<Status>(prm::MboxOut::status);
  }
  void SetUp() override {
    pd = *hca.create_pd();
    hw::CqSpec completions;
    completions.ring = {cq_ring.data(), cq_ring.size(), 16, 64};
    completions.doorbell = cq_record;
    cq = *hca.create_cq(completions);
    hw::SrqSpec receives;
    receives.pd = pd;
    receives.ring = {srq_ring.data(), srq_ring.size(), 16, 32};
    receives.doorbell = srq_record;
    receives.cyclic = true;
    srq = *hca.create_srq(receives);
    make_event_queue();
    test::Mailboxes<prm::CreateDct> mail;
    const auto context = mail.in[prm::CreateDctIn::dct_context_entry];
    context.set(prm::Dctc::pd, pd->number);
    context.set(prm::Dctc::cqn, cq->number);
    context.set(prm::Dctc::srqn_xrqn, srq->number);
    context.set(prm::Dctc::dc_access_key, kKey);
    context.set(prm::Dctc::mtu, 3);
    ASSERT_EQ(send(mail), Status::kOk);
    dctn = mail.out[prm::CreateDctOut::dctn];
  }
  void make_event_queue() {
    test::Mailboxes<prm::AllocUar> page;
    ASSERT_EQ(send(page), Status::kOk);
    test::Mailboxes<prm::CreateEq> mail(sizeof(uint64_t));
    const auto context = mail.in[prm::CreateEqIn::eq_context_entry];
    context.set(prm::Eqc::log_eq_size, 4);
    context.set(prm::Eqc::uar_page, page.out[prm::AllocUarOut::uar]);
    mail.in.set(prm::CreateEqIn::event_bitmask, 0,
                uint64_t{1} << static_cast<uint32_t>(Event::kDctAllConnectionsClosed));
    mail.in.set(prm::CreateEqIn::pas, 0, reinterpret_cast<uint64_t>(events.data()));
    ASSERT_EQ(send(mail), Status::kOk);
  }
  Status drain() {
    test::Mailboxes<prm::DrainDct> mail;
    mail.in.set(prm::DrainDctIn::dctn, dctn);
    return send(mail);
  }
  prm::DctState state() {
    test::Mailboxes<prm::QueryDct> mail;
    mail.in.set(prm::QueryDctIn::dctn, dctn);
    EXPECT_EQ(send(mail), Status::kOk);
    return mail.out[prm::QueryDctOut::dct_context_entry].as<prm::DctState>(prm::Dctc::state);
  }
  void pass(uint64_t ns) {
    for (uint64_t done = 0; done < ns; done += 10'000'000) {
      clock.advance(10'000'000);
      node.engine().step(clock.now_ns());
    }
  }
  engine::SendWork empty_send() const {
    engine::SendWork work;
    work.opcode = engine::Opcode::kSend;
    work.signaled = true;
    work.destination.gid = world_gid();
    work.destination.qpn = dctn;
    work.destination.access_key = kKey;
    return work;
  }
};

TEST_F(DctDrain, TakesNoNewConnectionsAndTellsWhenTheOldOnesRest) {
  constexpr auto kDrained = static_cast<uint16_t>(Event::kDctAllConnectionsClosed);
  TestQp initiator(node, engine::QpType::kDci, {0, 1}, pd->number);
  initiator.start();
  connectx::DataSegment nothing{};
  nothing.lkey = connectx::kInvalidKey;
  std::memcpy(srq_ring.data() + sizeof(connectx::SharedNextSegment), &nothing, sizeof nothing);
  srq_record[0] = connectx::Be32(1).raw();
  initiator.post(empty_send());
  pass(20'000'000);
  ASSERT_EQ(initiator.send_completions.size(), 1u);
  EXPECT_EQ(initiator.send_completions[0].status, engine::Status::kSuccess);
  EXPECT_EQ(state(), prm::DctState::kActive);

  ASSERT_EQ(drain(), Status::kOk);
  pass(20'000'000);
  EXPECT_EQ(state(), prm::DctState::kDrained);
  ASSERT_EQ(sink.told.size(), 1u);
  EXPECT_EQ(sink.told[0].type, kDrained);
  EXPECT_EQ(sink.told[0].number, dctn);
  EXPECT_STREQ(sink.told[0].kind, "DCT");
  const prm::View<prm::Eqe> entry({reinterpret_cast<const uint8_t*>(events.data()), 64});
  EXPECT_EQ(entry[prm::Eqe::event_type], kDrained);
  EXPECT_EQ(entry[prm::Eqe::event_data][prm::EventAuto::qp_events][prm::QpEvents::qpn_rqn_sqn], dctn);

  TestQp late(node, engine::QpType::kDci, {0, 1}, pd->number);
  late.start();
  late.post(empty_send());
  pass(3'000'000'000);
  ASSERT_EQ(late.send_completions.size(), 1u);
  EXPECT_EQ(late.send_completions[0].status, engine::Status::kRetryExceeded);
  EXPECT_EQ(sink.told.size(), 1u) << "told once";
  ASSERT_EQ(drain(), Status::kOk) << "again, which changes nothing";
}

}  // namespace
}  // namespace verbatim::testing
