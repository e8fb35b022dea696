// SPDX-License-Identifier: MIT
// Queue pairs and shared receive queues that commands make.
#include "device/connectx/command_queues.h"
#include "device/connectx/connectx_hca.h"
#include "device/connectx/umem_space.h"

namespace verbatim::connectx {

namespace {

constexpr uint64_t kRecordBytes = 8;

/// Bytes of a receive queue in front of a send queue, whose blocks are aligned.
uint64_t receive_bytes(const prm::QpContext& context) {
  const uint64_t bytes = uint64_t{context.receive_entries} * context.receive_stride;
  return (bytes + kBasicBlock - 1) / kBasicBlock * kBasicBlock;
}

hw::QueueMemory memory_at(std::byte* base, uint32_t entries, uint32_t stride) {
  hw::QueueMemory memory{base, static_cast<size_t>(entries) * stride, entries, stride};
  memory.revocable = true;
  return memory;
}

/// The two queues a queue pair completes into. One without a send queue or without a receive queue may leave
/// out that queue's.
Outcome find_completion_queues(const ObjectNumbers& numbers, uint16_t uid, const prm::QpContext& context,
                               hw::QpSpec& spec) {
  const bool receives = context.receive_entries != 0 || context.srqn != 0;
  const uint32_t send = context.send_blocks != 0 || !receives ? context.send_cqn : context.receive_cqn;
  const uint32_t receive = receives ? context.receive_cqn : context.send_cqn;
  for (const auto& [number, to] : {std::pair{send, &spec.send_cq}, std::pair{receive, &spec.receive_cq}}) {
    CqObject* cq = visible(numbers.cqs, uid, number);
    if (cq == nullptr) return nobodys("completion queue", number);
    if (cq->ring.real_time() != context.real_time)
      return Error{EINVAL, "queue pair and completion queue tell the time in different formats"};
    *to = cq;
  }
  return Done{};
}

}  // namespace

Expected<uint32_t> CommandQueues::create_qp(uint16_t uid, const prm::QpContext& context) {
  hw::QpSpec spec;
  spec.type = context.type;
  if ((spec.pd = visible(numbers_.pds, uid, context.pd)) == nullptr)
    return nobodys("protection domain", context.pd);
  if (Outcome found = find_completion_queues(numbers_, uid, context, spec); !found) return found.error();
  if (context.srqn != 0 && (spec.srq = visible(numbers_.srqs, uid, context.srqn)) == nullptr)
    return nobodys("shared receive queue", context.srqn);
  const uint64_t in_front = receive_bytes(context);
  Expected<UmemSpace> ring =
      UmemSpace::hold(numbers_, uid, context.ring, in_front + uint64_t{context.send_blocks} * kBasicBlock,
                      false, "work queue");
  if (!ring) return ring.error();
  Expected<UmemSpace> record =
      UmemSpace::hold(numbers_, uid, context.doorbell, kRecordBytes, false, "doorbell record");
  if (!record) return record.error();
  spec.receive = memory_at(ring->base(), context.receive_entries, context.receive_stride);
  spec.send = memory_at(ring->base() + in_front, context.send_blocks, kBasicBlock);
  spec.doorbell = reinterpret_cast<uint32_t*>(record->base());
  spec.user_index = context.user_index;
  spec.errored_streams_max = context.errored_streams_max;
  const Expected<QpObject*> made = hca_.create_qp_for(uid, spec);
  if (!made) return made.error();
  QpObject* qp = *made;
  const Outcome held = hca_.uars().hold(uid, context.uar, UarTable::Doorbell::kSend, qp, [qp] {
    if (qp->send.moved()) qp->queue_pair->ring();
  });
  if (!held) {
    (void)hca_.destroy_qp(qp);
    return held.error();
  }
  ring->keep();
  record->keep();
  qps_[qp->number] = context;
  return qp->number;
}

Outcome CommandQueues::destroy_qp(uint16_t uid, uint32_t qpn) {
  QpObject* qp = own(numbers_.qps, uid, qpn);
  const auto made = qps_.find(qpn);
  if (qp == nullptr || made == qps_.end()) return nobodys("queue pair", qpn);
  hca_.uars().let_go(made->second.uar, qp);
  (void)hca_.destroy_qp(qp);
  UmemSpace::let_go(numbers_, made->second.ring);
  UmemSpace::let_go(numbers_, made->second.doorbell);
  qps_.erase(made);
  return Done{};
}

Expected<uint32_t> CommandQueues::create_rmp(uint16_t uid, const prm::RmpContext& context) {
  hw::SrqSpec spec;
  if ((spec.pd = visible(numbers_.pds, uid, context.pd)) == nullptr)
    return nobodys("protection domain", context.pd);
  Expected<UmemSpace> ring = UmemSpace::hold(
      numbers_, uid, context.ring, uint64_t{context.entries} * context.stride, false, "shared receive queue");
  if (!ring) return ring.error();
  Expected<UmemSpace> record =
      UmemSpace::hold(numbers_, uid, context.doorbell, kRecordBytes, false, "doorbell record");
  if (!record) return record.error();
  spec.ring = memory_at(ring->base(), context.entries, context.stride);
  spec.doorbell = reinterpret_cast<uint32_t*>(record->base());
  spec.cyclic = context.cyclic;
  spec.bare = context.bare;
  spec.tags = context.tags;
  spec.user_index = context.user_index;
  if (context.tags != 0 && (spec.cq = visible(numbers_.cqs, uid, context.cqn)) == nullptr)
    return nobodys("completion queue", context.cqn);
  const Expected<SrqObject*> made = hca_.create_srq_for(uid, spec);
  if (!made) return made.error();
  SrqObject* srq = *made;
  srq->kind = context.tags != 0 ? "XRQ" : "RMP";
  ring->keep();
  record->keep();
  rmps_[srq->number] = context;
  if (context.limit != 0) srq->ring.set_limit(context.limit);
  return srq->number;
}

Expected<prm::RmpFacts> CommandQueues::query_rmp(uint16_t uid, uint32_t rmpn) {
  SrqObject* srq = visible(numbers_.srqs, uid, rmpn);
  if (srq == nullptr) return nobodys("shared receive queue", rmpn);
  prm::RmpFacts facts;
  if (const auto made = rmps_.find(rmpn); made != rmps_.end()) facts.context = made->second;
  facts.context.pd = srq->pd->number;
  facts.context.entries = srq->memory.entries;
  facts.context.stride = srq->memory.stride;
  facts.context.limit = srq->ring.limit();
  facts.failed = srq->ring.broken();
  return facts;
}

Outcome CommandQueues::arm_rmp(uint16_t uid, uint32_t rmpn, uint32_t limit) {
  SrqObject* srq = visible(numbers_.srqs, uid, rmpn);
  return srq ? hca_.arm_srq(srq, limit) : Outcome(nobodys("shared receive queue", rmpn));
}

Outcome CommandQueues::destroy_rmp(uint16_t uid, uint32_t rmpn) {
  SrqObject* srq = own(numbers_.srqs, uid, rmpn);
  const auto made = rmps_.find(rmpn);
  if (srq == nullptr || made == rmps_.end()) return nobodys("shared receive queue", rmpn);
  if (Outcome done = hca_.destroy_srq(srq); !done) return done;
  UmemSpace::let_go(numbers_, made->second.ring);
  UmemSpace::let_go(numbers_, made->second.doorbell);
  rmps_.erase(made);
  return Done{};
}

}  // namespace verbatim::connectx
