// SPDX-License-Identifier: MIT
// What the commands that make queues ask of the device.
#include <gtest/gtest.h>

#include "abi/prm/completion_queues.h"
#include "abi/prm/dynamic_connections.h"
#include "abi/prm/events.h"
#include "abi/prm/queue_pairs.h"
#include "abi/prm/raw_queues.h"
#include "abi/prm/shared_receive.h"
#include "device/connectx/prm/fake_unit_test.h"
#include "device/connectx/prm/sizes.h"
#include "engine/status.h"

namespace verbatim::prm {
namespace {

constexpr uint16_t kUid = 3;

struct QueueCommands : ::testing::Test {
  FakeUnit unit;
  std::vector<uint8_t> in, out;

  template <class Spec>
  Writer<typename Spec::In> input(size_t more = 0) {
    in = input_of(Spec::kOpcode, Spec::kMod, Spec::In::kBits / 8 + more);
    Writer<MboxIn>(in).set(MboxIn::uid, kUid);
    return Writer<typename Spec::In>(in);
  }
  template <class Spec>
  Status run() {
    out.assign(Spec::Out::kBits / 8, 0xa5);
    return command_table().execute(unit, in, out).result.status;
  }
  template <class Spec>
  View<typename Spec::Out> output() const {
    return View<typename Spec::Out>(out);
  }
};

TEST_F(QueueCommands, EventQueuesLieInOnePage) {
  const auto command = input<CreateEq>(8);
  const auto context = command[CreateEqIn::eq_context_entry];
  context.set(Eqc::log_eq_size, 7);
  context.set(Eqc::log_page_size, 1);
  context.set(Eqc::intr, 9);
  context.set(Eqc::uar_page, 0x123);
  context.set(Eqc::oi, true);
  command.set(CreateEqIn::event_bitmask, 0, 1u << 9);
  command.set(CreateEqIn::event_bitmask, 1, 5);
  command.set(CreateEqIn::pas, 0, 0x7fff12345000);
  ASSERT_EQ(run<CreateEq>(), Status::kOk);
  const EqContext& made = unit.eq_.context;
  EXPECT_EQ(made.address, 0x7fff12345000u);
  EXPECT_EQ(made.entries, 128u);
  EXPECT_EQ(made.vector, 9u);
  EXPECT_EQ(made.uar, 0x123u);
  EXPECT_TRUE(made.ignore_overrun);
  EXPECT_EQ(made.events[0], 1u << 9);
  EXPECT_EQ(made.events[1], 5u);
  context.set(Eqc::log_page_size, 0);
  EXPECT_EQ(run<CreateEq>(), Status::kBadParamErr) << "two pages";
  context.set(Eqc::log_eq_size, kLogEventQueueMax + 1);
  context.set(Eqc::log_page_size, 31);
  EXPECT_EQ(run<CreateEq>(), Status::kBadParamErr);
}

TEST_F(QueueCommands, DcTargetsAreShownAsTheyWereMade) {
  const auto context = input<CreateDct>()[CreateDctIn::dct_context_entry];
  context.set(Dctc::pd, 0x11);
  context.set(Dctc::cqn, 0x22);
  context.set(Dctc::srqn_xrqn, 0x33);
  context.set(Dctc::user_index, 0x44);
  context.set(Dctc::dc_access_key, 0x123456789abcdef0);
  context.set(Dctc::rre, true);
  context.set(Dctc::rae, true);
  context.set(Dctc::min_rnr_nak, 5);
  context.set(Dctc::my_addr_index, 1);
  context.set(Dctc::hop_limit, 64);
  EXPECT_EQ(run<CreateDct>(), Status::kBadParamErr) << "no path MTU";
  context.set(Dctc::mtu, 3);
  ASSERT_EQ(run<CreateDct>(), Status::kOk);
  const uint32_t dctn = output<CreateDct>()[CreateDctOut::dctn];
  const DctContext& made = unit.dct_.context;
  EXPECT_EQ(made.access_key, 0x123456789abcdef0u);
  EXPECT_EQ(made.attributes.access, engine::kRemoteRead | engine::kRemoteAtomic);
  EXPECT_EQ(made.attributes.path_mtu, 1024u);
  EXPECT_EQ(made.attributes.port, 1);
  EXPECT_EQ(made.attributes.path.sgid_index, 1);
  input<DrainDct>().set(DrainDctIn::dctn, dctn);
  ASSERT_EQ(run<DrainDct>(), Status::kOk);
  input<QueryDct>().set(QueryDctIn::dctn, dctn);
  ASSERT_EQ(run<QueryDct>(), Status::kOk);
  const auto shown = output<QueryDct>()[QueryDctOut::dct_context_entry];
  EXPECT_EQ(shown.as<DctState>(Dctc::state), DctState::kDraining);
  EXPECT_EQ(shown[Dctc::srqn_xrqn], 0x33u);
  EXPECT_EQ(shown[Dctc::dc_access_key], 0x123456789abcdef0u);
  EXPECT_EQ(shown[Dctc::mtu], 3u);
  EXPECT_TRUE(shown[Dctc::rae]);
  EXPECT_FALSE(shown[Dctc::rwe]);
  input<DestroyDct>().set(DestroyDctIn::dctn, dctn);
  EXPECT_EQ(run<DestroyDct>(), Status::kOk);
  EXPECT_EQ(run<DestroyDct>(), Status::kBadResErr);
}

TEST_F(QueueCommands, CompletionQueuesLieInUmems) {
  const auto command = input<CreateCq>();
  command.set(CreateCqIn::cq_umem_id, 0x11);
  command.set(CreateCqIn::cq_umem_offset, 0x1000);
  const auto context = command[CreateCqIn::cq_context];
  context.set(Cqc::dbr_umem_id, 0x22);
  context.set(Cqc::dbr_addr, 64);
  context.set(Cqc::log_cq_size, 8);
  context.set(Cqc::cqe_sz, CqeSize::k128Bytes);
  context.set(Cqc::oi, true);
  context.set(Cqc::c_eqn_or_apu_element, 0x85);
  context.set(Cqc::uar_page, 0x321);
  context.set(Cqc::cq_period, 16);
  context.set(Cqc::cq_max_count, 100);
  ASSERT_EQ(run<CreateCq>(), Status::kOk);
  const CqContext& made = unit.cq_.context;
  EXPECT_EQ(made.ring.umem, 0x11u);
  EXPECT_EQ(made.ring.offset, 0x1000u);
  EXPECT_EQ(made.doorbell.umem, 0x22u);
  EXPECT_EQ(made.doorbell.offset, 64u);
  EXPECT_EQ(made.entries, 256u);
  EXPECT_EQ(made.stride, 128u);
  EXPECT_EQ(made.eqn, 0x85u);
  EXPECT_EQ(made.uar, 0x321u);
  EXPECT_EQ(made.period_us, 16u);
  EXPECT_EQ(made.count, 100u);
  EXPECT_TRUE(made.ignore_overrun);
  for (const auto flag : {Cqc::cc, Cqc::cqe_comp_en, Cqc::apu_cq}) {
    context.set(flag, true);
    EXPECT_EQ(run<CreateCq>(), Status::kBadParamErr);
    context.set(flag, false);
  }
  context.set(Cqc::log_cq_size, kLogCompletionQueueMax + 1);
  EXPECT_EQ(run<CreateCq>(), Status::kBadParamErr);
}

TEST_F(QueueCommands, CompletionQueuesChangeWhatIsSelected) {
  auto create = input<CreateCq>();
  create[CreateCqIn::cq_context].set(Cqc::cq_period, 16);
  create[CreateCqIn::cq_context].set(Cqc::cq_max_count, 100);
  ASSERT_EQ(run<CreateCq>(), Status::kOk);
  const uint32_t cqn = output<CreateCq>()[CreateCqOut::cqn];

  const auto command = input<ModifyCq>();
  command.set(ModifyCqIn::cqn, cqn);
  const auto fields = command[ModifyCqIn::modify_field_select_resize_field_select];
  fields[ModifyFieldSelectResizeFieldSelectAuto::modify_field_select].set(
      ModifyFieldSelect::modify_field_select, ModifyCqField::kCqMaxCount);
  command[ModifyCqIn::cq_context].set(Cqc::cq_max_count, 7);
  command[ModifyCqIn::cq_context].set(Cqc::cq_period, 9);
  ASSERT_EQ(run<ModifyCq>(), Status::kOk);
  EXPECT_EQ(unit.cq_.context.count, 7u);
  EXPECT_EQ(unit.cq_.context.period_us, 16u) << "not selected";

  command.set(ModifyCqIn::op_mod, ModifyCqMode::kResizeCq);
  fields[ModifyFieldSelectResizeFieldSelectAuto::resize_field_select].set(
      ResizeFieldSelect::resize_field_select, ResizeCqField::kLogCqSize);
  command[ModifyCqIn::cq_context].set(Cqc::log_cq_size, 5);
  command.set(ModifyCqIn::cq_umem_id, 0x77);
  ASSERT_EQ(run<ModifyCq>(), Status::kOk);
  EXPECT_EQ(unit.cq_.context.entries, 32u);
  EXPECT_EQ(unit.cq_.context.ring.umem, 0x77u);
  fields[ModifyFieldSelectResizeFieldSelectAuto::resize_field_select].set(
      ResizeFieldSelect::resize_field_select, 0);
  EXPECT_EQ(run<ModifyCq>(), Status::kBadParamErr);
  command.set(ModifyCqIn::op_mod, 2);
  EXPECT_EQ(run<ModifyCq>(), Status::kBadParamErr);

  unit.cq_.status = CqStatus::kCqOverflow;
  unit.cq_.state = CqState::kNotificationRequestArmed;
  unit.cq_.produced = 0x654321;
  input<QueryCq>().set(QueryCqIn::cqn, cqn);
  ASSERT_EQ(run<QueryCq>(), Status::kOk);
  const auto shown = output<QueryCq>()[QueryCqOut::cq_context];
  EXPECT_EQ(shown.as<CqStatus>(Cqc::status), CqStatus::kCqOverflow);
  EXPECT_EQ(shown.as<CqState>(Cqc::st), CqState::kNotificationRequestArmed);
  EXPECT_EQ(shown[Cqc::log_cq_size], 5u);
  EXPECT_EQ(shown[Cqc::cq_max_count], 7u);
  EXPECT_EQ(shown[Cqc::producer_counter], 0x654321u);
}

TEST_F(QueueCommands, QueuePairsSayWhatTheyReceiveInto) {
  const auto command = input<CreateQp>();
  const auto context = command[CreateQpIn::qpc];
  command.set(CreateQpIn::wq_umem_id, 0x31);
  command.set(CreateQpIn::wq_umem_offset, 128);
  context.set(Qpc::st, QpService::kUc);
  context.set(Qpc::pd, 0x41);
  context.set(Qpc::cqn_snd, 0x51);
  context.set(Qpc::cqn_rcv, 0x52);
  context.set(Qpc::dbr_umem_id, 0x61);
  context.set(Qpc::dbr_addr, 8);
  context.set(Qpc::uar_page, 0x71);
  context.set(Qpc::user_index, 0x81);
  context.set(Qpc::log_sq_size, 6);
  context.set(Qpc::log_rq_size, 4);
  context.set(Qpc::log_rq_stride, 2);
  ASSERT_EQ(run<CreateQp>(), Status::kOk);
  QpContext made = unit.qp_context_;
  EXPECT_EQ(made.type, hw::QpType::kUc);
  EXPECT_EQ(made.pd, 0x41u);
  EXPECT_EQ(made.send_cqn, 0x51u);
  EXPECT_EQ(made.receive_cqn, 0x52u);
  EXPECT_EQ(made.ring.umem, 0x31u);
  EXPECT_EQ(made.ring.offset, 128u);
  EXPECT_EQ(made.doorbell.umem, 0x61u);
  EXPECT_EQ(made.doorbell.offset, 8u);
  EXPECT_EQ(made.uar, 0x71u);
  EXPECT_EQ(made.user_index, 0x81u);
  EXPECT_EQ(made.send_blocks, 64u);
  EXPECT_EQ(made.receive_entries, 16u);
  EXPECT_EQ(made.receive_stride, 64u);

  context.set(Qpc::rq_type, 1);
  EXPECT_EQ(run<CreateQp>(), Status::kBadResErr) << "no shared queue is named";
  context.set(Qpc::srqn_rmpn_xrqn, 0x91);
  context.set(Qpc::no_sq, true);
  ASSERT_EQ(run<CreateQp>(), Status::kOk);
  EXPECT_EQ(unit.qp_context_.srqn, 0x91u);
  EXPECT_EQ(unit.qp_context_.receive_entries, 0u);
  EXPECT_EQ(unit.qp_context_.send_blocks, 0u);
  context.set(Qpc::rq_type, 3);
  ASSERT_EQ(run<CreateQp>(), Status::kOk);
  EXPECT_EQ(unit.qp_context_.srqn, 0u);
  context.set(Qpc::rq_type, 6);
  EXPECT_EQ(run<CreateQp>(), Status::kBadParamErr);
  context.set(Qpc::rq_type, 0);
  context.set(Qpc::st, 0x77);
  EXPECT_EQ(run<CreateQp>(), Status::kBadParamErr);
}

TEST_F(QueueCommands, SharedReceiveQueuesAreChainsOrCycles) {
  const auto command = input<CreateRmp>();
  const auto context = command[CreateRmpIn::ctx];
  const auto queue = context[Rmpc::wq];
  context.set(Rmpc::state, RmpState::kRdy);
  queue.set(Wq::wq_umem_id, 0x31);
  queue.set(Wq::dbr_umem_id, 0x61);
  queue.set(Wq::dbr_addr, 16);
  queue.set(Wq::pd, 0x41);
  queue.set(Wq::log_wq_sz, 5);
  queue.set(Wq::log_wq_stride, 6);
  queue.set(Wq::lwm, 3);
  ASSERT_EQ(run<CreateRmp>(), Status::kOk);
  const RmpContext made = unit.rmp_.context;
  EXPECT_EQ(made.entries, 32u);
  EXPECT_EQ(made.stride, 64u);
  EXPECT_EQ(made.pd, 0x41u);
  EXPECT_EQ(made.doorbell.offset, 16u);
  EXPECT_EQ(made.limit, 3u);
  EXPECT_FALSE(made.cyclic);
  const uint32_t rmpn = output<CreateRmp>()[CreateRmpOut::rmpn];
  queue.set(Wq::wq_type, WqType::kCyclic);
  context.set(Rmpc::basic_cyclic_rcv_wqe, true);
  ASSERT_EQ(run<CreateRmp>(), Status::kOk);
  EXPECT_TRUE(unit.rmp_.context.cyclic && unit.rmp_.context.bare);
  queue.set(Wq::wq_type, WqType::kCyclicStridingRq);
  EXPECT_EQ(run<CreateRmp>(), Status::kBadParamErr);
  queue.set(Wq::wq_type, WqType::kCyclic);
  queue.set(Wq::log_wq_stride, 3);
  EXPECT_EQ(run<CreateRmp>(), Status::kBadParamErr);

  const auto change = input<ModifyRmp>();
  change.set(ModifyRmpIn::rmpn, rmpn);
  change[ModifyRmpIn::ctx].set(Rmpc::state, RmpState::kRdy);
  change[ModifyRmpIn::bitmask].set(RmpBitmask::lwm, true);
  change[ModifyRmpIn::ctx][Rmpc::wq].set(Wq::lwm, 12);
  ASSERT_EQ(run<ModifyRmp>(), Status::kOk);
  EXPECT_EQ(unit.rmp_.context.limit, 12u);
  input<QuerySrq>().set(QuerySrqIn::srqn, rmpn);
  ASSERT_EQ(run<QuerySrq>(), Status::kOk) << "the older name";
  EXPECT_EQ(output<QuerySrq>()[QuerySrqOut::srq_context_entry][Srqc::lwm], 12u);
}

/// What asks for a shared receive queue with a tag list. Every other input takes its place.
struct TaggedQueueRequest {
  explicit TaggedQueueRequest(Writer<CreateXrqIn> command)
      : context(command[CreateXrqIn::xrq_context]),
        tags(context[Xrqc::tag_matching_topology_context]),
        queue(context[Xrqc::wq]) {
    context.set(Xrqc::topology, XrqTopology::kTagMatching);
    context.set(Xrqc::cqn, 0x51);
    context.set(Xrqc::user_index, 0x77);
    tags.set(TagMatchingTopologyContext::log_matching_list_sz, 4);
    queue.set(Wq::pd, 0x41);
    queue.set(Wq::log_wq_sz, 5);
    queue.set(Wq::log_wq_stride, 6);
  }
  Writer<Xrqc> context;
  Writer<TagMatchingTopologyContext> tags;
  Writer<Wq> queue;
};

TEST_F(QueueCommands, SharedReceiveQueuesMayHaveTags) {
  unit.limits_.max_tags = 1023;
  const TaggedQueueRequest request(input<CreateXrq>());
  ASSERT_EQ(run<CreateXrq>(), Status::kOk);
  const RmpContext made = unit.rmp_.context;
  EXPECT_EQ(made.tags, 15u) << "one entry is always free";
  EXPECT_EQ(made.cqn, 0x51u);
  EXPECT_EQ(made.user_index, 0x77u);
  EXPECT_EQ(made.entries, 32u);
  const uint32_t xrqn = output<CreateXrq>()[CreateXrqOut::xrqn];
  input<QueryXrq>().set(QueryXrqIn::xrqn, xrqn);
  ASSERT_EQ(run<QueryXrq>(), Status::kOk);
  const auto shown = output<QueryXrq>()[QueryXrqOut::xrq_context];
  EXPECT_EQ(shown[Xrqc::cqn], 0x51u);
  EXPECT_EQ(shown[Xrqc::tag_matching_topology_context][TagMatchingTopologyContext::log_matching_list_sz], 4u);
  EXPECT_EQ(shown[Xrqc::wq][Wq::log_wq_sz], 5u);
  const auto limit = input<ArmXrq>();
  limit.set(ArmXrqIn::xrqn, xrqn);
  limit.set(ArmXrqIn::lwm, 9);
  ASSERT_EQ(run<ArmXrq>(), Status::kOk);
  EXPECT_EQ(unit.rmp_.context.limit, 9u);
  input<DestroyRmp>().set(DestroyRmpIn::rmpn, xrqn);
  EXPECT_EQ(run<DestroyRmp>(), Status::kBadResErr) << "it is none of those";
}

TEST_F(QueueCommands, QueuesWithTagsAreChecked) {
  unit.limits_.max_tags = 1023;
  const TaggedQueueRequest request(input<CreateXrq>());
  request.tags.set(TagMatchingTopologyContext::log_matching_list_sz, 0);
  EXPECT_EQ(run<CreateXrq>(), Status::kBadParamErr);
  request.tags.set(TagMatchingTopologyContext::log_matching_list_sz, 15);
  EXPECT_EQ(run<CreateXrq>(), Status::kBadParamErr);
  request.tags.set(TagMatchingTopologyContext::log_matching_list_sz, 4);
  request.queue.set(Wq::wq_type, WqType::kCyclic);
  ASSERT_EQ(run<CreateXrq>(), Status::kOk);
  EXPECT_TRUE(unit.rmp_.context.cyclic);
  request.queue.set(Wq::wq_type, WqType::kCyclicStridingRq);
  EXPECT_EQ(run<CreateXrq>(), Status::kBadParamErr);
  request.queue.set(Wq::wq_type, WqType::kLinkedList);
  request.context.set(Xrqc::topology, 0);
  EXPECT_EQ(run<CreateXrq>(), Status::kBadParamErr);
}

}  // namespace
}  // namespace verbatim::prm
