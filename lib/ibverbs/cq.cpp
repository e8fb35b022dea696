// SPDX-License-Identifier: MIT
// Completion queues: making and releasing them. Polling is the provider's.
#include "lib/ibverbs/channel.h"
#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/operations.h"
#include "lib/ibverbs/waiting.h"

namespace verbatim::verbs {
namespace {

constexpr uint64_t kFields = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                             IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO |
                             IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr uint32_t kMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
constexpr uint32_t kFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

/// The domain whose allocators and thread domain the queue is to have; nullptr: none.
ibv_pd* parent_of(const ibv_cq_init_attr_ex& attributes) {
  return (attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 ? attributes.parent_domain : nullptr;
}

/// 0, or why the attributes are refused.
Error check(Context& context, const ibv_cq_init_attr_ex& attributes) {
  if ((attributes.comp_mask & ~kMask) != 0) return {EINVAL, "ibv_create_cq_ex: unknown bits in comp_mask"};
  if ((attributes.wc_flags & ~kFields) != 0)
    return {EOPNOTSUPP, "ibv_create_cq_ex: wc_flags ask for fields that no completion has"};
  if ((attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (attributes.flags & ~kFlags) != 0)
    return {EINVAL, "ibv_create_cq_ex: unknown flags"};
  const bool wants_parent = (attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
  ibv_pd* const parent = attributes.parent_domain;
  if (wants_parent && (parent == nullptr || ProtectionDomain::of(parent)->origin == nullptr ||
                       parent->context != &context.verbs.context))
    return {EINVAL, "ibv_create_cq_ex: parent_domain is no parent domain of this context"};
  if (attributes.cqe < 1 || attributes.cqe > context.hca->limits().max_cqe)
    return {EINVAL, "completion queue of " + std::to_string(attributes.cqe) + " entries: 1 to " +
                        std::to_string(context.hca->limits().max_cqe) + " are possible"};
  if (attributes.comp_vector >= static_cast<uint32_t>(context.verbs.context.num_comp_vectors))
    return {EINVAL, "there is no completion vector " + std::to_string(attributes.comp_vector)};
  return {};
}

void hold_channel(ibv_comp_channel* channel, int change) {
  if (channel == nullptr) return;
  pthread_mutex_lock(&channel->context->mutex);
  channel->refcnt += change;
  pthread_mutex_unlock(&channel->context->mutex);
}

CompletionQueue* create(ibv_context* public_context, const ibv_cq_init_attr_ex& attributes, bool extended) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  const Error refusal = check(*context, attributes);
  if (refusal.code != 0) return refuse_pointer(*context, refusal);
  CompletionQueue* cq = context->provider->create_cq(*context, attributes, extended);
  if (cq == nullptr) return nullptr;
  cq->context = context;
  cq->extended = extended;
  cq->cq.context = public_context;
  cq->cq.channel = attributes.channel;
  cq->cq.cq_context = attributes.cq_context;
  cq->cq.handle = cq->device->number;
  if (ibv_pd* parent = parent_of(attributes)) cq->domain_use = DomainUse(*ProtectionDomain::of(parent));
  init_waiting(cq->cq);
  hold_channel(attributes.channel, 1);
  add_object(*context, *cq);
  return cq;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  CompletionQueue* cq = create(context, *attributes, true);
  return cq != nullptr ? &cq->ex : nullptr;
}

int modify_cq(ibv_cq* public_cq, ibv_modify_cq_attr* attributes) {
  Context* context = usable(public_cq->context);
  if (context == nullptr) return EIO;
  if (attributes->attr_mask >= IBV_CQ_ATTR_RESERVED)
    return refuse(*context, EINVAL, "ibv_modify_cq: unknown bits in attr_mask");
  if (attributes->attr_mask == 0) return 0;
  const ibv_moderate_cq& moderation = attributes->moderate;
  return settle(*context, context->hca->moderate_cq(CompletionQueue::of(public_cq)->device,
                                                    moderation.cq_count, moderation.cq_period));
}

}  // namespace

void install_cq_operations(verbs_context& verbs) {
  verbs.create_cq_ex = create_cq_ex;
  verbs.modify_cq = modify_cq;
}

}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int comp_vector) {
  ibv_cq_init_attr_ex attributes{};
  // Negative numbers become too large ones.
  attributes.cqe = static_cast<uint32_t>(cqe);
  attributes.cq_context = cq_context;
  attributes.channel = channel;
  attributes.comp_vector = static_cast<uint32_t>(comp_vector);
  attributes.wc_flags = IBV_WC_STANDARD_FLAGS;
  CompletionQueue* cq = create(context, attributes, false);
  return cq != nullptr ? &cq->cq : nullptr;
}

int ibv_resize_cq(ibv_cq* public_cq, int cqe) {
  Context* context = usable(public_cq->context);
  if (context == nullptr) return EIO;
  if (cqe < 1 || static_cast<uint32_t>(cqe) > context->hca->limits().max_cqe)
    return refuse(*context, EINVAL,
                  "ibv_resize_cq: no completion queue has " + std::to_string(cqe) + " entries");
  return context->provider->resize_cq(*CompletionQueue::of(public_cq), static_cast<uint32_t>(cqe));
}

int ibv_destroy_cq(ibv_cq* public_cq) {
  CompletionQueue& cq = *CompletionQueue::of(public_cq);
  Context& context = *cq.context;
  ibv_comp_channel* channel = public_cq->channel;
  if (context.abandoned) {
    hold_channel(channel, -1);
    context.provider->free_cq(cq);
    return 0;
  }
  if (const int error = context.provider->destroy_cq(cq)) return error;
  context.async_events.forget(&cq);
  wait_for_acknowledgements(*public_cq, public_cq->async_events_completed, cq.async_reported);
  if (channel != nullptr) {
    Channel::of(channel)->events.forget(&cq);
    wait_for_acknowledgements(*public_cq, public_cq->comp_events_completed, cq.completions_reported);
    hold_channel(channel, -1);
  }
  remove_object(cq);
  destroy_waiting(*public_cq);
  context.provider->free_cq(cq);
  return 0;
}

}  // extern "C"
