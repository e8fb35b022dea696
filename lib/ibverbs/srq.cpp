// SPDX-License-Identifier: MIT
// Shared receive queues. Posting is the provider's.
#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/operations.h"
#include "lib/ibverbs/waiting.h"

namespace verbatim::verbs {
namespace {

ibv_srq* create(ibv_pd* pd, ibv_srq_init_attr_ex& attributes) {
  Context* context = usable(pd->context);
  if (context == nullptr) return nullptr;
  const hw::Limits& limits = context->hca->limits();
  if (attributes.attr.max_wr > limits.max_srq_wr || attributes.attr.max_sge > limits.max_srq_sge)
    return refuse_pointer(*context, EINVAL,
                          "ibv_create_srq: at most " + std::to_string(limits.max_srq_wr) + " receives of " +
                              std::to_string(limits.max_srq_sge) + " elements");
  ProtectionDomain& domain = *ProtectionDomain::of(pd);
  SharedReceiveQueue* srq = context->provider->create_srq(domain, attributes);
  if (srq == nullptr) return nullptr;
  srq->context = context;
  srq->max_wr = attributes.attr.max_wr;
  srq->max_sge = attributes.attr.max_sge;
  srq->domain_use = DomainUse(domain);
  if (attributes.srq_type == IBV_SRQT_XRC) {
    srq->xrc_domain = XrcDomain::of(attributes.xrcd);
    ++srq->xrc_domain->users;
  }
  srq->base.context = pd->context;
  srq->base.srq_context = attributes.srq_context;
  srq->base.pd = pd;
  srq->base.handle = srq->device->number;
  init_waiting(srq->base);
  return &srq->base;
}

/// The same of a queue with a tag list.
Error check_tags(const hw::Limits& limits, const ibv_context* own, const ibv_srq_init_attr_ex& attributes) {
  constexpr uint32_t kNeeded = IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
  if ((attributes.comp_mask & kNeeded) != kNeeded || attributes.cq == nullptr)
    return {EINVAL, "ibv_create_srq_ex: a queue with a tag list needs a completion queue and tm_cap"};
  if (attributes.cq->context != own || attributes.pd->context != own)
    return {EINVAL, "ibv_create_srq_ex: domain and completion queue are not of the same context"};
  if (limits.max_tags == 0) return {EOPNOTSUPP, "ibv_create_srq_ex: the device has no tag lists"};
  if (attributes.tm_cap.max_num_tags == 0 || attributes.tm_cap.max_num_tags > limits.max_tags ||
      attributes.tm_cap.max_ops > limits.max_tag_operations)
    return {EINVAL, "ibv_create_srq_ex: 1 to " + std::to_string(limits.max_tags) + " tags and at most " +
                        std::to_string(limits.max_tag_operations) + " operations are possible"};
  return {};
}

/// Code 0, or why the attributes are refused.
Error check_extended(const hw::Limits& limits, const ibv_context* own,
                     const ibv_srq_init_attr_ex& attributes) {
  constexpr uint32_t kOfXrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if (attributes.comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED ||
      (attributes.comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attributes.pd == nullptr)
    return {EINVAL, "ibv_create_srq_ex: no pd, or unknown bits in comp_mask"};
  if (attributes.srq_type == IBV_SRQT_BASIC) return {};
  if (attributes.srq_type == IBV_SRQT_TM) return check_tags(limits, own, attributes);
  if (attributes.srq_type != IBV_SRQT_XRC)
    return {EOPNOTSUPP, "ibv_create_srq_ex: queues are basic, of an XRC domain, or have a tag list"};
  if ((attributes.comp_mask & kOfXrc) != kOfXrc || attributes.xrcd == nullptr || attributes.cq == nullptr)
    return {EINVAL, "ibv_create_srq_ex: a queue of type XRC needs a domain and a completion queue"};
  if (attributes.xrcd->context != own || attributes.cq->context != own || attributes.pd->context != own)
    return {EINVAL, "ibv_create_srq_ex: domains and completion queue are not of the same context"};
  return {};
}

ibv_srq* create_srq_ex(ibv_context* public_context, ibv_srq_init_attr_ex* attributes) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  ibv_srq_init_attr_ex wanted = *attributes;
  if ((wanted.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0) wanted.srq_type = IBV_SRQT_BASIC;
  if (const Error refusal = check_extended(context->hca->limits(), public_context, wanted); refusal.code != 0)
    return refuse_pointer(*context, refusal);
  ibv_srq* srq = create(wanted.pd, wanted);
  if (srq == nullptr) return nullptr;
  attributes->attr = wanted.attr;
  if (wanted.srq_type == IBV_SRQT_TM) attributes->tm_cap = wanted.tm_cap;
  return srq;
}

int get_srq_num(ibv_srq* srq, uint32_t* number) {
  *number = SharedReceiveQueue::of(srq)->device->number;
  return 0;
}

}  // namespace

void install_srq_operations(verbs_context& verbs) {
  verbs.create_srq_ex = create_srq_ex;
  verbs.get_srq_num = get_srq_num;
}

}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  ibv_srq_init_attr_ex full{};
  full.srq_context = attributes->srq_context;
  full.attr = attributes->attr;
  ibv_srq* srq = create(pd, full);
  if (srq != nullptr) attributes->attr = full.attr;
  return srq;
}

int ibv_modify_srq(ibv_srq* public_srq, ibv_srq_attr* attributes, int mask) {
  Context* context = usable(public_srq->context);
  if (context == nullptr) return EIO;
  SharedReceiveQueue& srq = *SharedReceiveQueue::of(public_srq);
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0)
    return refuse(*context, EINVAL, "ibv_modify_srq: unknown bits in srq_attr_mask");
  if ((mask & IBV_SRQ_MAX_WR) != 0)
    return refuse(*context, EINVAL, "ibv_modify_srq: the device cannot resize a shared receive queue");
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  if (attributes->srq_limit >= srq.max_wr + 1)
    return refuse(*context, EINVAL, "ibv_modify_srq: the limit is larger than the queue");
  return settle(*context, context->hca->arm_srq(srq.device, attributes->srq_limit));
}

int ibv_query_srq(ibv_srq* public_srq, ibv_srq_attr* attributes) {
  Context* context = usable(public_srq->context);
  if (context == nullptr) return EIO;
  const SharedReceiveQueue& srq = *SharedReceiveQueue::of(public_srq);
  *attributes = {srq.max_wr, srq.max_sge, context->hca->srq_limit(srq.device)};
  return 0;
}

int ibv_destroy_srq(ibv_srq* public_srq) {
  SharedReceiveQueue& srq = *SharedReceiveQueue::of(public_srq);
  Context& context = *srq.context;
  if (context.abandoned) {
    context.provider->free_srq(srq);
    return 0;
  }
  if (const int error = context.provider->destroy_srq(srq)) return error;
  context.async_events.forget(&srq);
  wait_for_acknowledgements(*public_srq, public_srq->events_completed, srq.async_reported);
  destroy_waiting(*public_srq);
  if (srq.xrc_domain != nullptr) --srq.xrc_domain->users;
  context.provider->free_srq(srq);
  return 0;
}

}  // extern "C"
