// SPDX-License-Identifier: MIT
// Event queues and completion queues that commands make.
#include "device/connectx/command_queues.h"

#include <vector>

#include "device/connectx/connectx_hca.h"
#include "device/connectx/memory_range.h"
#include "device/connectx/umem_space.h"

namespace verbatim::connectx {

namespace {

constexpr uint64_t kRecordBytes = 8;

prm::CqState state_of(CompletionRing::Armed armed) {
  switch (armed) {
    case CompletionRing::Armed::kNo:
      return prm::CqState::kFired;
    case CompletionRing::Armed::kAny:
      return prm::CqState::kNotificationRequestArmed;
    case CompletionRing::Armed::kSolicited:
      return prm::CqState::kSolicitedNotificationRequestArmed;
  }
  return prm::CqState::kFired;
}

hw::QueueMemory memory_of(const UmemSpace& space, uint32_t entries, uint32_t stride) {
  hw::QueueMemory memory{space.base(), static_cast<size_t>(entries) * stride, entries, stride};
  memory.revocable = true;
  return memory;
}

}  // namespace

void CommandQueues::destroy_leftovers() {
  std::vector<CqObject*> cqs;
  for (const auto& [number, context] : cqs_) cqs.push_back(numbers_.cqs.at(number));
  for (CqObject* cq : cqs) (void)hca_.destroy_cq(cq);
  std::vector<SrqObject*> srqs;
  for (const auto& [number, context] : rmps_) srqs.push_back(numbers_.srqs.at(number));
  for (SrqObject* srq : srqs) (void)hca_.destroy_srq(srq);
}

Expected<uint32_t> CommandQueues::create_eq(uint16_t uid, const prm::EqContext& context) {
  const uint64_t bytes = uint64_t{context.entries} * EventRing::kEntryBytes;
  if (Outcome mapped = check_range(context.address, bytes, true); !mapped) return mapped.error();
  if (context.vector >= hca_.limits().interrupt_vectors)
    return Error{EINVAL,
                 "the device has " + std::to_string(hca_.limits().interrupt_vectors) + " interrupt vectors"};
  if (Outcome held = hca_.uars().hold(uid, context.uar); !held) return held.error();
  EventRouter::Spec spec;
  spec.maker = uid;
  spec.base = reinterpret_cast<std::byte*>(context.address);
  spec.entries = context.entries;
  spec.ignore_overrun = context.ignore_overrun;
  spec.vector = context.vector;
  spec.uar = context.uar;
  spec.events = context.events;
  const Expected<uint32_t> eqn = hca_.events().add(spec);
  if (!eqn) hca_.uars().let_go(context.uar, nullptr);
  return eqn;
}

Expected<prm::EqFacts> CommandQueues::query_eq(uint16_t uid, uint32_t eqn) {
  const Expected<EventRouter::Facts> facts = hca_.events().query(uid, eqn);
  if (!facts) return facts.error();
  const EventRouter::Spec& spec = facts->spec;
  return prm::EqFacts{{reinterpret_cast<uint64_t>(spec.base), spec.entries, spec.ignore_overrun, spec.vector,
                       spec.uar, spec.events},
                      facts->consumed,
                      facts->produced,
                      facts->armed,
                      facts->failed};
}

Outcome CommandQueues::destroy_eq(uint16_t uid, uint32_t eqn) {
  const Expected<EventRouter::Facts> facts = hca_.events().query(uid, eqn);
  if (!facts) return facts.error();
  Outcome removed = hca_.events().remove(uid, eqn);
  if (removed) hca_.uars().let_go(facts->spec.uar, nullptr);
  return removed;
}

Expected<uint32_t> CommandQueues::create_cq(uint16_t uid, const prm::CqContext& context) {
  Expected<UmemSpace> ring = UmemSpace::hold(
      numbers_, uid, context.ring, uint64_t{context.entries} * context.stride, true, "completion queue");
  if (!ring) return ring.error();
  Expected<UmemSpace> record =
      UmemSpace::hold(numbers_, uid, context.doorbell, kRecordBytes, false, "doorbell record");
  if (!record) return record.error();
  if (Outcome sound = hca_.moderate_cq(nullptr, context.count, context.period_us); !sound)
    return sound.error();
  if (Outcome held = hca_.events().hold(uid, context.eqn); !held) return held.error();
  hw::CqSpec spec;
  spec.ring = memory_of(*ring, context.entries, context.stride);
  spec.doorbell = reinterpret_cast<uint32_t*>(record->base());
  spec.ignore_overrun = context.ignore_overrun;
  spec.real_time = context.real_time;
  const Expected<CqObject*> made = hca_.create_cq_for(uid, spec);
  if (!made) {
    hca_.events().let_go(context.eqn);
    return made.error();
  }
  CqObject* cq = *made;
  cq->eqn = context.eqn;
  cq->ring.moderate(hca_.engine(), context.count, context.period_us);
  const Outcome held =
      hca_.uars().hold(uid, context.uar, UarTable::Doorbell::kArm, cq, [cq] { cq->ring.arm_late(); });
  if (!held) {
    (void)hca_.destroy_cq(cq);
    hca_.events().let_go(context.eqn);
    return held.error();
  }
  ring->keep();
  record->keep();
  cqs_[cq->number] = context;
  return cq->number;
}

Expected<prm::CqFacts> CommandQueues::query_cq(uint16_t uid, uint32_t cqn) {
  CqObject* cq = visible(numbers_.cqs, uid, cqn);
  if (cq == nullptr) return nobodys("completion queue", cqn);
  const CompletionRing::Facts ring = cq->ring.facts();
  prm::CqFacts facts;
  if (const auto made = cqs_.find(cqn); made != cqs_.end()) facts.context = made->second;
  facts.context.entries = ring.entries;
  facts.context.stride = ring.stride;
  facts.context.eqn = cq->eqn;
  facts.context.ignore_overrun = ring.ignores_overruns;
  facts.context.real_time = cq->ring.real_time();
  facts.state = state_of(ring.armed);
  facts.status = ring.unreachable ? prm::CqStatus::kCqWriteFail
                 : ring.overrun   ? prm::CqStatus::kCqOverflow
                                  : prm::CqStatus::kOk;
  facts.consumed = ring.consumed;
  facts.produced = ring.produced;
  return facts;
}

Outcome CommandQueues::modify_cq(uint16_t uid, uint32_t cqn, const prm::CqContext& wanted) {
  CqObject* cq = visible(numbers_.cqs, uid, cqn);
  if (cq == nullptr) return nobodys("completion queue", cqn);
  const auto made = cqs_.find(cqn);
  if (made == cqs_.end() && wanted.eqn != cq->eqn)
    return Error{EINVAL, "the host side gets the events of its own completion queue"};
  if (Outcome done = hca_.moderate_cq(cq, wanted.count, wanted.period_us); !done) return done;
  if (made != cqs_.end()) {
    if (Outcome held = hca_.events().hold(uid, wanted.eqn); !held) return held;
    hca_.events().let_go(cq->eqn.exchange(wanted.eqn));
    made->second = wanted;
  }
  cq->ring.ignore_overruns(wanted.ignore_overrun);
  return Done{};
}

Outcome CommandQueues::resize_cq(uint16_t uid, uint32_t cqn, const prm::Place& place, uint32_t entries) {
  CqObject* cq = own(numbers_.cqs, uid, cqn);
  if (cq == nullptr) return nobodys("completion queue", cqn);
  prm::CqContext& context = cqs_[cqn];
  Expected<UmemSpace> ring =
      UmemSpace::hold(numbers_, uid, place, uint64_t{entries} * context.stride, true, "completion queue");
  if (!ring) return ring.error();
  if (Outcome done = cq->ring.go_on_in(memory_of(*ring, entries, context.stride)); !done) return done;
  ring->keep();
  UmemSpace::let_go(numbers_, context.ring);
  context.ring = place;
  context.entries = entries;
  return Done{};
}

Outcome CommandQueues::destroy_cq(uint16_t uid, uint32_t cqn) {
  CqObject* cq = own(numbers_.cqs, uid, cqn);
  if (cq == nullptr) return nobodys("completion queue", cqn);
  if (Outcome idle = cq->idle(); !idle) return idle;
  const prm::CqContext context = cqs_[cqn];
  const uint32_t eqn = cq->eqn;
  hca_.uars().let_go(context.uar, cq);
  (void)hca_.destroy_cq(cq);
  hca_.events().let_go(eqn);
  UmemSpace::let_go(numbers_, context.ring);
  UmemSpace::let_go(numbers_, context.doorbell);
  cqs_.erase(cqn);
  return Done{};
}

}  // namespace verbatim::connectx
