// SPDX-License-Identifier: MIT
// Flow steering: rules that say which frames a raw packet queue pair gets.
#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/flow_specs.h"
#include "lib/ibverbs/operations.h"

namespace verbatim::verbs {
namespace {

/// A rule of the list, with what it belongs to.
struct Flow {
  ibv_flow base{};
  QueuePair* qp = nullptr;
  Counters* counters = nullptr;
  EspFlowAction* action = nullptr;

  static Flow* of(ibv_flow* flow) { return reinterpret_cast<Flow*>(flow); }
};

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attributes) {
  Context* context = usable(qp->context);
  if (context == nullptr) return nullptr;
  QueuePair& pair = *QueuePair::of(qp);
  if (qp->qp_type != IBV_QPT_RAW_PACKET && qp->qp_type != IBV_QPT_UD)
    return refuse_pointer(*context, EINVAL, "ibv_create_flow: the queue pair is not of type RAW_PACKET or UD",
                          qp->qp_num);
  FlowWish wish;
  if (const Error refusal = read_flow(*context, *attributes, wish); refusal.code != 0)
    return refuse_pointer(*context, refusal, qp->qp_num);
  if (pair.device == nullptr && wish.rule.leaves)
    return refuse_pointer(*context, EINVAL, "ibv_create_flow: a queue pair with a table sends nothing");
  auto* flow = new (std::nothrow) Flow;
  if (flow == nullptr) return refuse_pointer(*context, ENOMEM, "ibv_create_flow: no memory for a rule");
  const Expected<uint32_t> number = context->hca->create_flow({pair.device, pair.spreader}, wish.rule);
  if (!number) {
    delete flow;
    return refuse_pointer(*context, number.error(), qp->qp_num);
  }
  flow->qp = &pair;
  flow->counters = wish.counters;
  flow->action = wish.action;
  flow->base.context = qp->context;
  flow->base.handle = *number;
  ++pair.flows;
  if (flow->counters != nullptr) ++flow->counters->flows;
  if (flow->action != nullptr) ++flow->action->flows;
  return &flow->base;
}

int destroy_flow(ibv_flow* public_flow) {
  Flow* flow = Flow::of(public_flow);
  Context& context = *Context::of(public_flow->context);
  if (!context.abandoned)
    if (const int error = settle(context, context.hca->destroy_flow(public_flow->handle))) return error;
  --flow->qp->flows;
  if (flow->counters != nullptr) --flow->counters->flows;
  if (flow->action != nullptr) --flow->action->flows;
  delete flow;
  return 0;
}

}  // namespace

void install_flow_operations(verbs_context& verbs) {
  verbs.ibv_create_flow = create_flow;
  verbs.ibv_destroy_flow = destroy_flow;
  install_counter_operations(verbs);
  install_flow_action_operations(verbs);
}

}  // namespace verbatim::verbs
