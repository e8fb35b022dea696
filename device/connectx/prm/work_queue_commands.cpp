// SPDX-License-Identifier: MIT
// Making and destroying queue pairs and shared receive queues. A user's memory is always in umems: whether
// the flags say so (wq_umem_valid) does not matter, and released programs leave them out.
#include <algorithm>

#include "abi/prm/queue_pairs.h"
#include "abi/prm/raw_queues.h"
#include "abi/prm/shared_receive.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"
#include "device/connectx/prm/sizes.h"

namespace verbatim::prm {

namespace {

constexpr uint32_t kLogUnit = 4;

/// What a queue pair receives into (qpc.rq_type).
enum class ReceiveKind : uint32_t { kOwn = 0, kShared = 1, kNone = 3 };

struct Service {
  QpService code;
  hw::QpType type;
};
constexpr Service kServices[] = {{QpService::kRc, hw::QpType::kRc},
                                 {QpService::kUc, hw::QpType::kUc},
                                 {QpService::kUd, hw::QpType::kUd},
                                 {QpService::kDci, hw::QpType::kDci}};

/// What the device would have to do that it cannot, or nullptr.
const char* beyond_us(View<CreateQpIn> in, View<Qpc> context) {
  if (context[Qpc::send_dbr_mode] != 0) return "send queues without a doorbell record are not offered";
  if (in[CreateQpIn::input_qpn] != 0) return "the device chooses the number";
  if (context[Qpc::wq_signature]) return "signatures of work queue entries are not offered";
  if (context[Qpc::rlky]) return "the reserved key is not for users";
  if (context[Qpc::cd_master] || context[Qpc::cd_slave_send] || context[Qpc::cd_slave_receive])
    return "queues that wait for each other are not offered";
  return nullptr;
}

Result create_qp(Command<CreateQp>& c) {
  const auto context = c.in[CreateQpIn::qpc];
  const auto* service = std::ranges::find(kServices, context.as<QpService>(Qpc::st), &Service::code);
  if (service == std::end(kServices))
    return refuse(Status::kBadParamErr,
                  "queue pairs of service " + std::to_string(context[Qpc::st]) + " are not offered");
  if (const char* reason = beyond_us(c.in, context)) return refuse(Status::kBadParamErr, reason);
  QpContext wanted;
  wanted.type = service->type;
  wanted.pd = context[Qpc::pd];
  wanted.send_cqn = context[Qpc::cqn_snd];
  wanted.receive_cqn = context[Qpc::cqn_rcv];
  wanted.user_index = context[Qpc::user_index];
  wanted.uar = context[Qpc::uar_page];
  wanted.real_time = context.as<QpTimestamp>(Qpc::ts_format) == QpTimestamp::kRealTime;
  wanted.ring = {c.in[CreateQpIn::wq_umem_id], c.in[CreateQpIn::wq_umem_offset]};
  wanted.doorbell = {context[Qpc::dbr_umem_id], context[Qpc::dbr_addr]};
  const hw::Limits& limits = c.unit.limits();
  if (context[Qpc::log_num_dci_stream_channels] > limits.log_max_dci_streams ||
      context[Qpc::log_num_dci_errored_streams] > limits.log_max_dci_errored_streams)
    return refuse(Status::kBadParamErr, "more streams than the device has");
  wanted.errored_streams_max = 1u << context[Qpc::log_num_dci_errored_streams];
  if (!context[Qpc::no_sq]) wanted.send_blocks = 1u << context[Qpc::log_sq_size];
  switch (context.as<ReceiveKind>(Qpc::rq_type)) {
    case ReceiveKind::kOwn:
      wanted.receive_entries = 1u << context[Qpc::log_rq_size];
      wanted.receive_stride = kReceiveUnit << context[Qpc::log_rq_stride];
      break;
    case ReceiveKind::kShared:
      wanted.srqn = context[Qpc::srqn_rmpn_xrqn];
      if (wanted.srqn == 0) return refuse(Status::kBadResErr, "no shared receive queue has number 0");
      break;
    case ReceiveKind::kNone:
      break;
    default:
      return refuse(Status::kBadParamErr, "rq_type has no such value");
  }
  const Expected<uint32_t> qpn = c.unit.create_qp(c.uid, wanted);
  if (!qpn) return refuse(qpn.error());
  c.out.set(CreateQpOut::qpn, *qpn);
  return {};
}

Result destroy_qp(Command<DestroyQp>& c) {
  return result_of(c.unit.destroy_qp(c.uid, c.in[DestroyQpIn::qpn]));
}

/// The queue of a shared receive queue's context.
Result read_queue(View<Wq> queue, RmpContext& wanted) {
  const auto type = queue.as<WqType>(Wq::wq_type);
  if (type != WqType::kLinkedList && type != WqType::kCyclic)
    return refuse(Status::kBadParamErr, "striding shared receive queues are not offered");
  if (queue[Wq::wq_signature])
    return refuse(Status::kBadParamErr, "signatures of work queue entries are not offered");
  const uint32_t log_size = queue[Wq::log_wq_sz], log_stride = queue[Wq::log_wq_stride];
  if (log_size > kLogSharedReceiveMax || log_stride < kLogUnit || log_stride > kLogReceiveStrideMax)
    return refuse(Status::kBadParamErr, "a shared receive queue has up to 2^" +
                                            std::to_string(kLogSharedReceiveMax) +
                                            " entries of 2^4 to 2^12 bytes, not 2^" +
                                            std::to_string(log_size) + " of 2^" + std::to_string(log_stride));
  wanted.pd = queue[Wq::pd];
  wanted.ring = {queue[Wq::wq_umem_id], queue[Wq::wq_umem_offset]};
  wanted.doorbell = {queue[Wq::dbr_umem_id], queue[Wq::dbr_addr]};
  wanted.entries = 1u << log_size;
  wanted.stride = 1u << log_stride;
  wanted.cyclic = type == WqType::kCyclic;
  wanted.limit = queue[Wq::lwm];
  return {};
}

void show_queue(const RmpContext& is, Writer<Wq> queue) {
  queue.set(Wq::wq_type, is.cyclic ? WqType::kCyclic : WqType::kLinkedList);
  queue.set(Wq::pd, is.pd);
  queue.set(Wq::lwm, is.limit);
  queue.set(Wq::log_wq_sz, log2_of(is.entries));
  queue.set(Wq::log_wq_stride, log2_of(is.stride));
  queue.set(Wq::wq_umem_valid, is.ring.umem != 0);
  queue.set(Wq::wq_umem_id, is.ring.umem);
  queue.set(Wq::wq_umem_offset, is.ring.offset);
  queue.set(Wq::dbr_umem_valid, is.doorbell.umem != 0);
  queue.set(Wq::dbr_umem_id, is.doorbell.umem);
  queue.set(Wq::dbr_addr, is.doorbell.offset);
}

Result create_rmp(Command<CreateRmp>& c) {
  const auto context = c.in[CreateRmpIn::ctx];
  RmpContext wanted;
  if (Result read = read_queue(context[Rmpc::wq], wanted); read.status != Status::kOk) return read;
  wanted.bare = wanted.cyclic && context[Rmpc::basic_cyclic_rcv_wqe];
  const Expected<uint32_t> rmpn = c.unit.create_rmp(c.uid, wanted);
  if (!rmpn) return refuse(rmpn.error());
  c.out.set(CreateRmpOut::rmpn, *rmpn);
  return {};
}

/// Facts of a queue without a tag list: those that have one share its numbers, and have commands of their
/// own.
Expected<RmpFacts> find_rmp(CommandUnit& unit, uint16_t uid, uint32_t rmpn) {
  Expected<RmpFacts> facts = unit.query_rmp(uid, rmpn);
  if (facts && facts->context.tags != 0)
    return Error{ENOENT, "the shared receive queue of number " + std::to_string(rmpn) + " has a tag list"};
  return facts;
}

Result query_rmp(Command<QueryRmp>& c) {
  const Expected<RmpFacts> facts = find_rmp(c.unit, c.uid, c.in[QueryRmpIn::rmpn]);
  if (!facts) return refuse(facts.error());
  const auto context = c.out[QueryRmpOut::rmp_context];
  context.set(Rmpc::state, facts->failed ? RmpState::kErr : RmpState::kRdy);
  context.set(Rmpc::basic_cyclic_rcv_wqe, facts->context.bare);
  show_queue(facts->context, context[Rmpc::wq]);
  return {};
}

/// A shared receive queue with a tag list.
Result create_xrq(Command<CreateXrq>& c) {
  const auto context = c.in[CreateXrqIn::xrq_context];
  if (context.as<XrqTopology>(Xrqc::topology) != XrqTopology::kTagMatching)
    return refuse(Status::kBadParamErr,
                  "of these shared receive queues only those that match tags are offered");
  if (context[Xrqc::rlkey]) return refuse(Status::kBadParamErr, "the reserved key is not for users");
  RmpContext wanted;
  if (Result read = read_queue(context[Xrqc::wq], wanted); read.status != Status::kOk) return read;
  const auto tags = context[Xrqc::tag_matching_topology_context];
  wanted.tags = (1u << tags[TagMatchingTopologyContext::log_matching_list_sz]) - 1;
  if (wanted.tags == 0 || wanted.tags > c.unit.limits().max_tags)
    return refuse(Status::kBadParamErr,
                  "a tag list has 2 to " + std::to_string(c.unit.limits().max_tags + 1) + " entries");
  wanted.cqn = context[Xrqc::cqn];
  wanted.user_index = context[Xrqc::user_index];
  const Expected<uint32_t> xrqn = c.unit.create_rmp(c.uid, wanted);
  if (!xrqn) return refuse(xrqn.error());
  c.out.set(CreateXrqOut::xrqn, *xrqn);
  return {};
}

/// Facts of a queue with a tag list.
Expected<RmpFacts> find_xrq(CommandUnit& unit, uint16_t uid, uint32_t xrqn) {
  Expected<RmpFacts> facts = unit.query_rmp(uid, xrqn);
  if (facts && facts->context.tags == 0)
    return Error{ENOENT, "the shared receive queue of number " + std::to_string(xrqn) + " has no tag list"};
  return facts;
}

Result query_xrq(Command<QueryXrq>& c) {
  const Expected<RmpFacts> facts = find_xrq(c.unit, c.uid, c.in[QueryXrqIn::xrqn]);
  if (!facts) return refuse(facts.error());
  const RmpContext& is = facts->context;
  const auto context = c.out[QueryXrqOut::xrq_context];
  context.set(Xrqc::topology, XrqTopology::kTagMatching);
  context.set(Xrqc::offload, XrqOffload::kRndv);
  context.set(Xrqc::cqn, is.cqn);
  context.set(Xrqc::user_index, is.user_index);
  context[Xrqc::tag_matching_topology_context].set(TagMatchingTopologyContext::log_matching_list_sz,
                                                   log2_of(is.tags + 1));
  show_queue(is, context[Xrqc::wq]);
  return {};
}

Result arm_xrq(Command<ArmXrq>& c) {
  const Expected<RmpFacts> facts = find_xrq(c.unit, c.uid, c.in[ArmXrqIn::xrqn]);
  return facts ? result_of(c.unit.arm_rmp(c.uid, c.in[ArmXrqIn::xrqn], c.in[ArmXrqIn::lwm]))
               : refuse(facts.error());
}

Result destroy_xrq(Command<DestroyXrq>& c) {
  const Expected<RmpFacts> facts = find_xrq(c.unit, c.uid, c.in[DestroyXrqIn::xrqn]);
  return facts ? result_of(c.unit.destroy_rmp(c.uid, c.in[DestroyXrqIn::xrqn])) : refuse(facts.error());
}

Result modify_rmp(Command<ModifyRmp>& c) {
  const auto context = c.in[ModifyRmpIn::ctx];
  if (context.as<RmpState>(Rmpc::state) != RmpState::kRdy)
    return refuse(Status::kBadParamErr, "a shared receive queue is ready and stays so");
  const uint32_t rmpn = c.in[ModifyRmpIn::rmpn];
  if (const Expected<RmpFacts> facts = find_rmp(c.unit, c.uid, rmpn); !facts) return refuse(facts.error());
  if (!c.in[ModifyRmpIn::bitmask][RmpBitmask::lwm]) return {};
  return result_of(c.unit.arm_rmp(c.uid, rmpn, context[Rmpc::wq][Wq::lwm]));
}

Result destroy_rmp(Command<DestroyRmp>& c) {
  const uint32_t rmpn = c.in[DestroyRmpIn::rmpn];
  const Expected<RmpFacts> facts = find_rmp(c.unit, c.uid, rmpn);
  return facts ? result_of(c.unit.destroy_rmp(c.uid, rmpn)) : refuse(facts.error());
}

/// The older names of the same: a shared receive queue that is no RMP does not exist on these devices.
Result query_srq(Command<QuerySrq>& c) {
  const Expected<RmpFacts> facts = c.unit.query_rmp(c.uid, c.in[QuerySrqIn::srqn]);
  if (!facts) return refuse(facts.error());
  const RmpContext& is = facts->context;
  const auto context = c.out[QuerySrqOut::srq_context_entry];
  context.set(Srqc::log_srq_size, log2_of(is.entries));
  context.set(Srqc::log_rq_stride, log2_of(is.stride / kReceiveUnit));
  context.set(Srqc::pd, is.pd);
  context.set(Srqc::lwm, is.limit);
  return {};
}

Result arm_rq(Command<ArmRq>& c) {
  constexpr uint32_t kSharedReceive = 1;
  if (c.in[ArmRqIn::op_mod] != kSharedReceive)
    return refuse(Status::kBadParamErr, "only limits of shared receive queues can be armed");
  return result_of(c.unit.arm_rmp(c.uid, c.in[ArmRqIn::srq_number], c.in[ArmRqIn::lwm]));
}

}  // namespace

std::span<const Entry> work_queue_commands() {
  static constexpr Entry kEntries[] = {
      entry<create_qp>(),  entry<destroy_qp>(),  entry<create_rmp>(), entry<query_rmp>(),
      entry<modify_rmp>(), entry<destroy_rmp>(), entry<query_srq>(),  entry<arm_rq>(),
      entry<create_xrq>(), entry<query_xrq>(),   entry<arm_xrq>(),    entry<destroy_xrq>(),
  };
  return kEntries;
}

}  // namespace verbatim::prm
