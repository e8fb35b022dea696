// SPDX-License-Identifier: MIT
// The life of queues that commands make: what they may be, what keeps what in use, how they end.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "abi/prm/completion_queues.h"
#include "abi/prm/domains.h"
#include "abi/prm/events.h"
#include "abi/prm/raw_queues.h"
#include "abi/prm/shared_receive.h"
#include "tests/conformance/devx_parts.h"
#include "tests/conformance/mail.h"

namespace verbatim::conformance {
namespace {

using connectx::DataSegment;
using prm::Status;

constexpr uint8_t kNop = connectx::kOpNop;

uint32_t code(Status status) { return static_cast<uint32_t>(status); }

class DevxQueues : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(device.good()); }
  Mail<prm::QueryCq> state_of(const DevxCq& cq) {
    Mail<prm::QueryCq> mail;
    mail.in.set(prm::QueryCqIn::cqn, cq.number);
    EXPECT_EQ(mail.query(cq.object), 0);
    return mail;
  }
  /// A request that moves nothing and completes.
  static void post_nothing(DevxQp& qp) { qp.post(kNop, {}); }
  void expect_service() {
    DevxCq cq(device, 4, device.eqn);
    DevxQp qp(device, cq);
    ASSERT_EQ(qp.connect(qp.number), 0);
    post_nothing(qp);
    EXPECT_TRUE(cq.wait()) << "the device still serves";
  }
  DevxDevice device;
};

TEST_F(DevxQueues, ShowThemselves) {
  DevxCq cq(device, 5, device.eqn, true);
  ASSERT_TRUE(cq.good());
  auto mail = state_of(cq);
  auto context = mail.out[prm::QueryCqOut::cq_context];
  EXPECT_EQ(context[prm::Cqc::log_cq_size], 5u);
  EXPECT_EQ(context.as<prm::CqeSize>(prm::Cqc::cqe_sz), prm::CqeSize::k128Bytes);
  EXPECT_EQ(context[prm::Cqc::uar_page], device.uar->page_id);
  EXPECT_EQ(context[prm::Cqc::c_eqn_or_apu_element], device.eqn);
  EXPECT_EQ(context.as<prm::CqState>(prm::Cqc::st), prm::CqState::kFired);
  DevxQp qp(device, cq);
  ASSERT_EQ(qp.connect(qp.number), 0);
  post_nothing(qp);
  ASSERT_TRUE(cq.wait());
  ASSERT_EQ(mail.query(cq.object), 0);
  EXPECT_EQ(mail.out[prm::QueryCqOut::cq_context][prm::Cqc::producer_counter], 1u);
  EXPECT_EQ(mail.out[prm::QueryCqOut::cq_context][prm::Cqc::consumer_counter], 1u);
  cq.arm(true);
  for (int i = 0; i < 1000; i++) {
    ASSERT_EQ(mail.query(cq.object), 0);
    if (mail.out[prm::QueryCqOut::cq_context].as<prm::CqState>(prm::Cqc::st) != prm::CqState::kFired) break;
    poll(nullptr, 0, 1);
  }
  EXPECT_EQ(mail.out[prm::QueryCqOut::cq_context].as<prm::CqState>(prm::Cqc::st),
            prm::CqState::kSolicitedNotificationRequestArmed);
  Mail<prm::QueryQp> question;
  question.in.set(prm::QueryQpIn::qpn, qp.number);
  ASSERT_EQ(question.query(qp.object), 0);
  const auto shown = question.out[prm::QueryQpOut::qpc];
  EXPECT_EQ(shown[prm::Qpc::cqn_snd], cq.number);
  EXPECT_EQ(shown[prm::Qpc::user_index], 0x42u);
  EXPECT_EQ(shown[prm::Qpc::uar_page], device.uar->page_id);
  EXPECT_EQ(shown[prm::Qpc::log_rq_stride], 0u) << "16 bytes";
  EXPECT_EQ(shown[prm::Qpc::log_rq_size], 4u);
  EXPECT_FALSE(shown[prm::Qpc::no_sq]);
  EXPECT_TRUE(shown[prm::Qpc::dbr_umem_valid]);
  EXPECT_EQ(shown[prm::Qpc::dbr_umem_id], qp.memory.id());
  EXPECT_EQ(shown[prm::Qpc::dbr_addr], 16u * 16 + 16 * 64) << "behind both queues";
  EXPECT_EQ(shown.as<prm::QpState>(prm::Qpc::state), prm::QpState::kRts);
}

TEST_F(DevxQueues, CompletionQueuesGoOnInAnotherRing) {
  DevxCq cq(device, 3, device.eqn);
  DevxQp qp(device, cq);
  ASSERT_EQ(qp.connect(qp.number), 0);
  for (int i = 0; i < 3; i++) post_nothing(qp);
  ASSERT_TRUE(cq.wait());
  poll(nullptr, 0, 20);
  NamedMemory bigger(device.context, 32 * 64);
  for (int i = 0; i < 32; i++) *reinterpret_cast<uint8_t*>(bigger.at(i * 64 + 63)) = 0xf1;
  Mail<prm::ModifyCq> mail;
  mail.in.set(prm::ModifyCqIn::cqn, cq.number);
  mail.in.set(prm::ModifyCqIn::op_mod, prm::ModifyCqMode::kResizeCq);
  mail.in.set(prm::ModifyCqIn::cq_umem_valid, true);
  mail.in.set(prm::ModifyCqIn::cq_umem_id, bigger.id());
  mail.in[prm::ModifyCqIn::cq_context].set(prm::Cqc::log_cq_size, 5);
  mail.in[prm::ModifyCqIn::modify_field_select_resize_field_select]
         [prm::ModifyFieldSelectResizeFieldSelectAuto::resize_field_select]
             .set(prm::ResizeFieldSelect::resize_field_select, prm::ResizeCqField::kLogCqSize);
  ASSERT_EQ(mail.modify(cq.object), 0) << mail.status();
  EXPECT_TRUE(cq.take());
  EXPECT_TRUE(cq.take());
  const auto last = cq.take();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->opcode_owner >> 4, connectx::kCqeResize);
  post_nothing(qp);
  const auto* next = reinterpret_cast<const uint8_t*>(bigger.at(4 * 64 + 63));
  for (int i = 0; i < 5000 && *static_cast<const volatile uint8_t*>(next) == 0xf1; i++) poll(nullptr, 0, 1);
  EXPECT_EQ(*next, connectx::kCqeRequest << 4) << "index 4, first lap of the new ring";
  EXPECT_FALSE(cq.take());
  EXPECT_EQ(bigger.deregister(), EBUSY);
  EXPECT_EQ(qp.destroy(), 0);
  EXPECT_EQ(cq.destroy(), 0);
}

TEST_F(DevxQueues, OverrunsAreEventsAndSeen) {
  mlx5dv_devx_event_channel* channel = mlx5dv_devx_create_event_channel(
      device.context, static_cast<mlx5dv_devx_create_event_channel_flags>(0));
  DevxCq cq(device, 1, device.eqn);
  uint16_t type = static_cast<uint16_t>(prm::Event::kCqError);
  ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, cq.object, sizeof type, &type, 5), 0);
  DevxQp qp(device, cq);
  ASSERT_EQ(qp.connect(qp.number), 0);
  for (int i = 0; i < 4; i++) post_nothing(qp);
  pollfd ready{channel->fd, POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 5000), 1);
  std::vector<uint8_t> room(sizeof(mlx5dv_devx_async_event_hdr) + 64);
  auto* event = reinterpret_cast<mlx5dv_devx_async_event_hdr*>(room.data());
  ASSERT_EQ(mlx5dv_devx_get_event(channel, event, room.size()), static_cast<ssize_t>(room.size()));
  EXPECT_EQ(event->out_data[1], type);
  EXPECT_EQ(state_of(cq).out[prm::QueryCqOut::cq_context].as<prm::CqStatus>(prm::Cqc::status),
            prm::CqStatus::kCqOverflow);
  mlx5dv_devx_destroy_event_channel(channel);
}

// Whoever is driven by its peer alone neither polls nor rings.
TEST_F(DevxQueues, OverrunsFailQueuePairsAtOnce) {
  DevxDevice peer;
  ASSERT_TRUE(peer.good());
  mlx5dv_devx_event_channel* channel = mlx5dv_devx_create_event_channel(
      device.context, static_cast<mlx5dv_devx_create_event_channel_flags>(0));
  DevxCq cq(device, 1, device.eqn), peers(peer, 4, peer.eqn);
  DevxQp receiver(device, cq), sender(peer, peers), resting(device, cq);
  uint16_t type = static_cast<uint16_t>(prm::Event::kLocalWqCatastrophicError);
  ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, receiver.object, sizeof type, &type, 5), 0);
  ASSERT_EQ(receiver.connect(sender.number), 0);
  ASSERT_EQ(sender.connect(receiver.number), 0);
  DataSegment none{};
  none.lkey = connectx::kInvalidKey;
  for (int i = 0; i < 3; i++) receiver.receive(none);
  for (int i = 0; i < 3; i++) sender.post_segments(connectx::kOpSend, {});
  pollfd ready{channel->fd, POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 5000), 1);
  Mail<prm::QueryQp> mail;
  mail.in.set(prm::QueryQpIn::qpn, receiver.number);
  ASSERT_EQ(mail.query(receiver.object), 0);
  EXPECT_EQ(mail.out[prm::QueryQpOut::qpc].as<prm::QpState>(prm::Qpc::state), prm::QpState::kErr);
  mail.in.set(prm::QueryQpIn::qpn, resting.number);
  ASSERT_EQ(mail.query(resting.object), 0);
  EXPECT_EQ(mail.out[prm::QueryQpOut::qpc].as<prm::QpState>(prm::Qpc::state), prm::QpState::kRst)
      << "it has lost nothing";
  mlx5dv_devx_destroy_event_channel(channel);
}

TEST_F(DevxQueues, SurviveThatTheirMemoryIsTakenAway) {
  DevxCq cq(device, 4, device.eqn);
  DevxQp doomed(device, cq), other(device, cq);
  ASSERT_EQ(doomed.connect(doomed.number), 0);
  ASSERT_EQ(other.connect(other.number), 0);
  doomed.memory.unmap();
  doomed.ring();
  post_nothing(other);
  ASSERT_TRUE(cq.wait()) << "others go on";
  cq.memory.unmap();
  post_nothing(other);
  prm::CqStatus status{};
  for (int i = 0; i < 5000 && status != prm::CqStatus::kCqWriteFail; i++) {
    status = state_of(cq).out[prm::QueryCqOut::cq_context].as<prm::CqStatus>(prm::Cqc::status);
    poll(nullptr, 0, 1);
  }
  EXPECT_EQ(status, prm::CqStatus::kCqWriteFail);
  device.ring(connectx::kArmCqRegister, 1);
  device.ring(connectx::kArmEqRegister, ~uint64_t{0});
  device.ring(0xb00, ~uint64_t{0});
  poll(nullptr, 0, 20);
}

TEST_F(DevxQueues, SurviveThatTheirMemoryComesAndGoes) {
  constexpr int kWorlds = 8, kPosts = 200;
  std::mt19937 random(9);
  for (int world = 0; world < kWorlds; world++) {
    DevxCq cq(device, 8, device.eqn);
    DevxQp qp(device, cq);
    ASSERT_EQ(qp.connect(qp.number), 0);
    std::atomic<bool> stop{false};
    std::thread vandal([&, seed = random()] {
      std::minstd_rand choice(static_cast<unsigned>(seed));
      while (!stop) {
        NamedMemory& target = choice() % 8 == 0 ? cq.memory : qp.memory;
        target.protect(true);
        target.protect(false);
      }
    });
    for (int i = 0; i < kPosts; i++) {
      if (i % 7 == 0) cq.arm();
      post_nothing(qp);
      if (i % 8 == 7) poll(nullptr, 0, 1);
      while (cq.take()) {
      }
    }
    stop = true;
    vandal.join();
  }
  expect_service();
}

TEST_F(DevxQueues, SurviveAnythingInTheirMemory) {
  std::mt19937 random(10);
  for (int world = 0; world < 20; world++) {
    DevxCq cq(device, 4, device.eqn, world % 2 != 0);
    DevxQp qp(device, cq);
    ASSERT_EQ(qp.connect(qp.number), 0);
    for (int i = 0; i < 100; i++) {
      NamedMemory& target = random() % 4 == 0 ? cq.memory : qp.memory;
      *target.word(random() % 1024 & ~3u) = static_cast<uint32_t>(random());
      constexpr size_t kRecord = 16 * 16 + 16 * 64;
      for (const size_t word : {kRecord, kRecord + 4})
        if (random() % 2 == 0) *qp.memory.word(word) = connectx::Be32(random() % 40).raw();
      const uint64_t bytes = uint64_t{random()} << 32 | random();
      device.ring(connectx::kDoorbellRegisters[random() % std::size(connectx::kDoorbellRegisters)], bytes);
    }
    poll(nullptr, 0, 1);
  }
  expect_service();
}

TEST_F(DevxQueues, AreRefusedWithTheirStatus) {
  NamedMemory memory(device.context, 4096), readable(device.context, 4096, 0);
  const auto status = [&](const std::function<void(Mail<prm::CreateCq>&)>& change) {
    Mail<prm::CreateCq> mail;
    mail.in.set(prm::CreateCqIn::cq_umem_id, memory.id());
    const auto context = mail.in[prm::CreateCqIn::cq_context];
    context.set(prm::Cqc::dbr_umem_id, memory.id());
    context.set(prm::Cqc::dbr_addr, 2048);
    context.set(prm::Cqc::log_cq_size, 4);
    context.set(prm::Cqc::c_eqn_or_apu_element, device.eqn);
    context.set(prm::Cqc::uar_page, device.uar->page_id);
    change(mail);
    mlx5dv_devx_obj* made = mail.create(device.context);
    if (made != nullptr) {
      EXPECT_EQ(mlx5dv_devx_obj_destroy(made), 0);
    }
    return mail.status();
  };
  using Create = Mail<prm::CreateCq>;
  const auto context = [](Create& mail) { return mail.in[prm::CreateCqIn::cq_context]; };
  EXPECT_EQ(status([](Create&) {}), 0u);
  EXPECT_EQ(status([](Create& mail) { mail.in.set(prm::CreateCqIn::cq_umem_id, 0xffff); }),
            code(Status::kBadResErr));
  EXPECT_EQ(status([&](Create& mail) { mail.in.set(prm::CreateCqIn::cq_umem_id, readable.id()); }),
            code(Status::kBadParamErr));
  EXPECT_EQ(status([](Create& mail) { mail.in.set(prm::CreateCqIn::cq_umem_offset, 4096 - 1023); }),
            code(Status::kBadParamErr));
  EXPECT_EQ(status([&](Create& mail) { context(mail).set(prm::Cqc::dbr_addr, 4092); }),
            code(Status::kBadParamErr));
  EXPECT_EQ(status([&](Create& mail) { context(mail).set(prm::Cqc::dbr_addr, ~uint64_t{0}); }),
            code(Status::kBadParamErr));
  EXPECT_EQ(status([&](Create& mail) { context(mail).set(prm::Cqc::c_eqn_or_apu_element, 0xff); }),
            code(Status::kBadResErr));
  EXPECT_EQ(status([&](Create& mail) { context(mail).set(prm::Cqc::uar_page, 0xfffff); }),
            code(Status::kBadResErr));
  EXPECT_EQ(memory.deregister(), 0) << "nothing is kept by what was refused";
}

/// One of everything, in an order in which it can be made; each may be destroyed at any time.
struct Zoo {
  explicit Zoo(DevxDevice& device) : memory(device.context, 65536) {
    page = mlx5dv_devx_alloc_uar(device.context, MLX5DV_UAR_ALLOC_TYPE_NC);
    Mail<prm::AllocPd> domain;
    add("PD", domain.create(device.context));
    vector = mlx5dv_devx_alloc_msi_vector(device.context);
    Mail<prm::CreateEq> eq;
    eq.in[prm::CreateEqIn::eq_context_entry].set(prm::Eqc::log_eq_size, 3);
    eq.in[prm::CreateEqIn::eq_context_entry].set(prm::Eqc::uar_page, page->page_id);
    eq.in[prm::CreateEqIn::eq_context_entry].set(prm::Eqc::intr, vector->vector);
    mlx5dv_devx_eq* queue = eq.create_eq(device.context);
    parts.push_back({"EQ", [queue] { return mlx5dv_devx_destroy_eq(queue); }});
    parts.push_back({"vector", [this] { return mlx5dv_devx_free_msi_vector(vector); }});
    Mail<prm::CreateCq> cq;
    cq.in.set(prm::CreateCqIn::cq_umem_id, memory.id());
    const auto cqc = cq.in[prm::CreateCqIn::cq_context];
    cqc.set(prm::Cqc::dbr_umem_id, memory.id());
    cqc.set(prm::Cqc::dbr_addr, 32768);
    cqc.set(prm::Cqc::log_cq_size, 4);
    cqc.set(prm::Cqc::c_eqn_or_apu_element, eq.out[prm::CreateEqOut::eq_number]);
    cqc.set(prm::Cqc::uar_page, page->page_id);
    add("CQ", cq.create(device.context));
    Mail<prm::CreateRmp> rmp;
    const auto queue_context = rmp.in[prm::CreateRmpIn::ctx][prm::Rmpc::wq];
    queue_context.set(prm::Wq::pd, domain.out[prm::AllocPdOut::pd]);
    queue_context.set(prm::Wq::log_wq_sz, 4);
    queue_context.set(prm::Wq::log_wq_stride, 5);
    queue_context.set(prm::Wq::wq_umem_id, memory.id());
    queue_context.set(prm::Wq::wq_umem_offset, 4096);
    queue_context.set(prm::Wq::dbr_umem_id, memory.id());
    add("RMP", rmp.create(device.context));
    Mail<prm::CreateQp> qp;
    qp.in.set(prm::CreateQpIn::wq_umem_id, memory.id());
    qp.in.set(prm::CreateQpIn::wq_umem_offset, 8192);
    const auto qpc = qp.in[prm::CreateQpIn::qpc];
    qpc.set(prm::Qpc::pd, domain.out[prm::AllocPdOut::pd]);
    qpc.set(prm::Qpc::cqn_snd, cq.out[prm::CreateCqOut::cqn]);
    qpc.set(prm::Qpc::cqn_rcv, cq.out[prm::CreateCqOut::cqn]);
    qpc.set(prm::Qpc::uar_page, page->page_id);
    qpc.set(prm::Qpc::log_sq_size, 4);
    qpc.set(prm::Qpc::rq_type, 1);
    qpc.set(prm::Qpc::srqn_rmpn_xrqn, rmp.out[prm::CreateRmpOut::rmpn]);
    qpc.set(prm::Qpc::dbr_umem_id, memory.id());
    qpc.set(prm::Qpc::dbr_addr, 32768 + 64);
    add("QP", qp.create(device.context));
    parts.push_back({"umem", [this] { return memory.deregister(); }});
  }
  void add(const char* name, mlx5dv_devx_obj* object) {
    EXPECT_NE(object, nullptr) << name;
    parts.push_back({name, [object] { return mlx5dv_devx_obj_destroy(object); }});
  }
  struct Part {
    const char* name;
    std::function<int()> destroy;
  };
  NamedMemory memory;
  mlx5dv_devx_uar* page = nullptr;
  mlx5dv_devx_msi_vector* vector = nullptr;
  std::vector<Part> parts;
};

TEST_F(DevxQueues, EndInAnyOrder) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; round++) {
    Zoo zoo(device);
    if (round % 10 == 9) {  // before what is rung there: it goes with the device
      mlx5dv_devx_free_uar(zoo.page);
      zoo.page = nullptr;
    }
    std::shuffle(zoo.parts.begin(), zoo.parts.end(), random);
    for (int sweep = 0; !zoo.parts.empty(); sweep++) {
      ASSERT_LT(sweep, 10) << zoo.parts.front().name << " never ends";
      std::erase_if(zoo.parts, [](const Zoo::Part& part) {
        const int error = part.destroy();
        EXPECT_TRUE(error == 0 || error == EBUSY) << part.name << ": " << error;
        return error == 0;
      });
    }
    if (zoo.page != nullptr) mlx5dv_devx_free_uar(zoo.page);
  }
}

TEST_F(DevxQueues, AreLeftToTheCloseOfTheDevice) {
  DevxDevice another;
  auto cq = std::make_unique<DevxCq>(another, 4, another.eqn);
  auto qp = std::make_unique<DevxQp>(another, *cq);
  ASSERT_EQ(qp->connect(qp->number), 0);
  qp->post(kNop, {});
  ASSERT_EQ(ibv_close_device(std::exchange(another.context, nullptr)), 0);
  // Handles of what is gone. Kept, as they must not be used any more.
  static std::vector<void*>& kept = *new std::vector<void*>;
  for (auto** object : {&another.pd, &cq->object, &qp->object})
    kept.push_back(std::exchange(*object, nullptr));
  kept.push_back(cq->memory.forget());
  kept.push_back(qp->memory.forget());
  kept.push_back(std::exchange(another.uar, nullptr));
}

TEST_F(DevxQueues, OfVerbsAnswerCommands) {
  ibv_pd* pd = ibv_alloc_pd(device.context);
  ibv_cq* cq = ibv_create_cq(device.context, 31, nullptr, nullptr, 0);
  ibv_srq_init_attr attributes{};
  attributes.attr = {15, 1, 0};
  ibv_srq* srq = ibv_create_srq(pd, &attributes);
  ASSERT_TRUE(pd && cq && srq);
  mlx5dv_cq cq_shown{};
  mlx5dv_srq srq_shown{};
  srq_shown.comp_mask = MLX5DV_SRQ_MASK_SRQN;
  mlx5dv_obj objects{};
  objects.cq = {cq, &cq_shown};
  objects.srq = {srq, &srq_shown};
  ASSERT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ), 0);

  Mail<prm::QueryCq> question;
  question.in.set(prm::QueryCqIn::cqn, cq_shown.cqn);
  ASSERT_EQ(question.query(cq), 0);
  EXPECT_EQ(1u << question.out[prm::QueryCqOut::cq_context][prm::Cqc::log_cq_size], cq_shown.cqe_cnt);
  question.in.set(prm::QueryCqIn::cqn, cq_shown.cqn + 1);
  EXPECT_EQ(question.query(cq), EINVAL);
  Mail<prm::ModifyCq> change;
  change.in.set(prm::ModifyCqIn::cqn, cq_shown.cqn);
  change
      .in[prm::ModifyCqIn::modify_field_select_resize_field_select]
         [prm::ModifyFieldSelectResizeFieldSelectAuto::modify_field_select]
      .set(prm::ModifyFieldSelect::modify_field_select, prm::ModifyCqField::kCqMaxCount);
  EXPECT_EQ(change.modify(cq), 0);
  change.in.set(prm::ModifyCqIn::op_mod, prm::ModifyCqMode::kResizeCq);
  EXPECT_EQ(change.modify(cq), EREMOTEIO) << "the ring is the host side's";

  Mail<prm::ModifyRmp> limit;
  limit.in.set(prm::ModifyRmpIn::rmpn, srq_shown.srqn);
  limit.in[prm::ModifyRmpIn::bitmask].set(prm::RmpBitmask::lwm, true);
  limit.in[prm::ModifyRmpIn::ctx].set(prm::Rmpc::state, prm::RmpState::kRdy);
  limit.in[prm::ModifyRmpIn::ctx][prm::Rmpc::wq].set(prm::Wq::lwm, 4);
  EXPECT_EQ(limit.modify(srq), 0);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(device.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED) << "fewer than 4 are posted";
  EXPECT_EQ(event.element.srq, srq);
  ibv_ack_async_event(&event);
  Mail<prm::QueryRmp> shared;
  shared.in.set(prm::QueryRmpIn::rmpn, srq_shown.srqn);
  ASSERT_EQ(shared.query(srq), 0);
  EXPECT_EQ(shared.out[prm::QueryRmpOut::rmp_context].as<prm::RmpState>(prm::Rmpc::state),
            prm::RmpState::kRdy);
  Mail<prm::QuerySrq> old;
  old.in.set(prm::QuerySrqIn::srqn, srq_shown.srqn);
  EXPECT_EQ(old.query(srq), 0) << "by the older name";
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

}  // namespace
}  // namespace verbatim::conformance
