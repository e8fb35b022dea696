// SPDX-License-Identifier: MIT
// DC targets that commands make. They need no memory of their own.
#include "device/connectx/command_queues.h"
#include "device/connectx/connectx_hca.h"

namespace verbatim::connectx {

namespace {

constexpr const char* kTarget = "DC target";

prm::DctState state_of(engine::DcTarget::Phase phase) {
  switch (phase) {
    case engine::DcTarget::Phase::kActive:
      return prm::DctState::kActive;
    case engine::DcTarget::Phase::kDraining:
      return prm::DctState::kDraining;
    case engine::DcTarget::Phase::kDrained:
      return prm::DctState::kDrained;
  }
  return prm::DctState::kActive;
}

/// It is ready as soon as it is made.
Outcome make_ready(ConnectxHca& hca, hw::Qp* target, hw::QpAttributes attributes) {
  attributes.state = hw::QpState::kInit;
  const uint32_t to_init = engine::kQpState | engine::kQpPkeyIndex | engine::kQpPort | engine::kQpAccessFlags;
  if (Outcome done = hca.modify_qp(target, attributes, to_init); !done) return done;
  attributes.state = hw::QpState::kRtr;
  const uint32_t to_rtr = engine::kQpState | engine::kQpAv | engine::kQpPathMtu | engine::kQpMinRnrTimer;
  return hca.modify_qp(target, attributes, to_rtr);
}

}  // namespace

Expected<uint32_t> CommandQueues::create_dct(uint16_t uid, const prm::DctContext& context) {
  hw::QpSpec spec;
  spec.type = hw::QpType::kDct;
  if ((spec.pd = visible(numbers_.pds, uid, context.pd)) == nullptr)
    return nobodys("protection domain", context.pd);
  if ((spec.receive_cq = visible(numbers_.cqs, uid, context.cqn)) == nullptr)
    return nobodys("completion queue", context.cqn);
  if ((spec.srq = visible(numbers_.srqs, uid, context.srqn)) == nullptr)
    return nobodys("shared receive queue", context.srqn);
  spec.send_cq = spec.receive_cq;
  spec.user_index = context.user_index;
  spec.access_key = context.access_key;
  const Expected<QpObject*> made = hca_.create_qp_for(uid, spec);
  if (!made) return made.error();
  if (Outcome ready = make_ready(hca_, *made, context.attributes); !ready) {
    (void)hca_.destroy_qp(*made);
    return ready.error();
  }
  return (*made)->number;
}

Expected<prm::DctFacts> CommandQueues::query_dct(uint16_t uid, uint32_t dctn) {
  QpObject* target = visible(numbers_.dcts, uid, dctn);
  if (target == nullptr) return nobodys(kTarget, dctn);
  prm::DctFacts facts;
  facts.context.pd = target->pd->number;
  facts.context.cqn = target->receive_cq->number;
  facts.context.srqn = target->srq->number;
  facts.context.user_index = target->user_index;
  facts.context.access_key = target->access_key;
  facts.context.attributes = hca_.query_qp(target);
  target->queue_pair->target()->note_answered();
  facts.state = state_of(target->queue_pair->target()->phase());
  facts.key_violations = target->queue_pair->key_violations();
  return facts;
}

Outcome CommandQueues::drain_dct(uint16_t uid, uint32_t dctn) {
  QpObject* target = visible(numbers_.dcts, uid, dctn);
  if (target == nullptr) return nobodys(kTarget, dctn);
  target->queue_pair->target()->drain();
  return Done{};
}

Outcome CommandQueues::arm_dct(uint16_t uid, uint32_t dctn) {
  QpObject* target = visible(numbers_.dcts, uid, dctn);
  if (target == nullptr) return nobodys(kTarget, dctn);
  target->queue_pair->arm_key_violation();
  return Done{};
}

Outcome CommandQueues::destroy_dct(uint16_t uid, uint32_t dctn) {
  QpObject* target = own(numbers_.dcts, uid, dctn);
  return target == nullptr ? Outcome(nobodys(kTarget, dctn)) : hca_.destroy_qp(target);
}

}  // namespace verbatim::connectx
