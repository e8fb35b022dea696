// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <vector>

#include "abi/prm/scheduling.h"
#include "device/connectx/prm/fake_unit_test.h"

namespace verbatim::prm {
namespace {

struct SchedulingCommands : ::testing::Test {
  FakeUnit unit;
  std::vector<uint8_t> in, out;

  Writer<CreateSchedElemIn> input(uint16_t opcode) {
    in = input_of(opcode, CreateSchedElem::kMod, CreateSchedElemIn::kBits / 8);
    const Writer<CreateSchedElemIn> box(in);
    box[CreateSchedElemIn::sched_elem].set(SchedElem::scheduling_hierarchy, 3);
    return box;
  }
  Status run() {
    out.assign(GeneralObjOutCmdHdr::kBits / 8, 0xa5);
    return command_table().execute(unit, in, out).result.status;
  }
};

TEST_F(SchedulingCommands, MakeChangeAndDestroyLeaves) {
  const auto context =
      input(CreateSchedElem::kOpcode)[CreateSchedElemIn::sched_elem][SchedElem::sched_context];
  context.set(SchedContext::element_type, SchedulingType::kQueueGroup);
  context.set(SchedContext::parent_element_id, 77);
  context.set(SchedContext::max_average_bw, 4096);
  ASSERT_EQ(run(), Status::kOk);
  const uint32_t number = View<GeneralObjOutCmdHdr>(out)[GeneralObjOutCmdHdr::obj_id];
  EXPECT_TRUE(unit.scheduling_.leaf);
  EXPECT_EQ(unit.scheduling_.parent, 77u);
  EXPECT_EQ(unit.scheduling_.max_mbps, 4096u);
  const auto change = input(ModifySchedElem::kOpcode);
  change[CreateSchedElemIn::hdr].set(GeneralObjInCmdHdr::obj_id, number);
  change[CreateSchedElemIn::sched_elem].set(SchedElem::modify_field_select, 1);
  change[CreateSchedElemIn::sched_elem][SchedElem::sched_context].set(SchedContext::bw_share, 5);
  ASSERT_EQ(run(), Status::kOk);
  EXPECT_EQ(unit.mask_, 1u);
  EXPECT_EQ(unit.scheduling_.share, 5u);
  in = input_of(DestroySchedElem::kOpcode, DestroySchedElem::kMod, 16);
  Writer<GeneralObjInCmdHdr>(in).set(GeneralObjInCmdHdr::obj_id, number);
  EXPECT_EQ(run(), Status::kOk);
  EXPECT_EQ(run(), Status::kBadResErr);
}

TEST_F(SchedulingCommands, RefuseWhatCannotBeScheduled) {
  input(CreateSchedElem::kOpcode)[CreateSchedElemIn::sched_elem].set(SchedElem::scheduling_hierarchy, 2);
  EXPECT_EQ(run(), Status::kBadParamErr);
  input(CreateSchedElem::kOpcode)[CreateSchedElemIn::sched_elem][SchedElem::sched_context].set(
      SchedContext::element_type, SchedulingType::kVport);
  EXPECT_EQ(run(), Status::kBadParamErr);
  const auto node = input(CreateSchedElem::kOpcode)[CreateSchedElemIn::sched_elem][SchedElem::sched_context];
  node[SchedContext::sched_elem_attr][SchedElemAttr::tsar].set(SchedElemAttrTsar::tsar_type, TsarType::kEts);
  EXPECT_EQ(run(), Status::kBadParamErr);
}

}  // namespace
}  // namespace verbatim::prm
