// SPDX-License-Identifier: MIT
// Elements of scheduling trees, as general objects.
#include "abi/prm/scheduling.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"

namespace verbatim::prm {

namespace {

constexpr uint32_t kNicHierarchy = 3;

/// What the mailbox asks for: a node that shares what it has among those below it, or a leaf.
Expected<hw::SchedulingSpec> read(View<SchedElem> element) {
  const auto context = element[SchedElem::sched_context];
  const auto type = context.as<SchedulingType>(SchedContext::element_type);
  if (element[SchedElem::scheduling_hierarchy] != kNicHierarchy)
    return Error{EINVAL, "only the network adapter's own hierarchy can be scheduled"};
  if (type != SchedulingType::kTsar && type != SchedulingType::kQueueGroup)
    return Error{EINVAL, "a scheduling element is a node or a group of queues"};
  const auto tsar = context[SchedContext::sched_elem_attr][SchedElemAttr::tsar];
  if (type == SchedulingType::kTsar && tsar.as<TsarType>(SchedElemAttrTsar::tsar_type) != TsarType::kDwrr)
    return Error{EINVAL, "a node shares by weight (DWRR) only"};
  hw::SchedulingSpec spec;
  spec.leaf = type == SchedulingType::kQueueGroup;
  spec.parent = context[SchedContext::parent_element_id];
  spec.share = context[SchedContext::bw_share];
  spec.max_mbps = context[SchedContext::max_average_bw];
  return spec;
}

Result create(Command<CreateSchedElem>& c) {
  const Expected<hw::SchedulingSpec> spec = read(c.in[CreateSchedElemIn::sched_elem]);
  if (!spec) return refuse(spec.error());
  const Expected<uint32_t> number = c.unit.create_scheduling_element(c.uid, *spec);
  if (!number) return refuse(number.error());
  c.out.set(GeneralObjOutCmdHdr::obj_id, *number);
  return {};
}

Result modify(Command<ModifySchedElem>& c) {
  const auto element = c.in[CreateSchedElemIn::sched_elem];
  const Expected<hw::SchedulingSpec> spec = read(element);
  if (!spec) return refuse(spec.error());
  const uint32_t number = c.in[CreateSchedElemIn::hdr][GeneralObjInCmdHdr::obj_id];
  const auto fields = static_cast<uint32_t>(element[SchedElem::modify_field_select]);
  return result_of(c.unit.modify_scheduling_element(c.uid, number, fields, *spec));
}

Result destroy(Command<DestroySchedElem>& c) {
  return result_of(c.unit.destroy_scheduling_element(c.uid, c.in[GeneralObjInCmdHdr::obj_id]));
}

}  // namespace

std::span<const Entry> scheduling_commands() {
  static constexpr Entry kEntries[] = {entry<create>(), entry<modify>(), entry<destroy>()};
  return kEntries;
}

}  // namespace verbatim::prm
