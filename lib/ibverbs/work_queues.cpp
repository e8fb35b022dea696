// SPDX-License-Identifier: MIT
// Work queues of their own and tables of them. Posting is the provider's.
#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/operations.h"
#include "lib/ibverbs/waiting.h"

namespace verbatim::verbs {
namespace {

/// Writes are a processor's, which has no use for padding, so that it is asked for in vain.
constexpr uint32_t kFlags = IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_SCATTER_FCS |
                            IBV_WQ_FLAGS_DELAY_DROP | IBV_WQ_FLAGS_PCI_WRITE_END_PADDING;

Error check_flags(Context& context, uint32_t flags) {
  if (flags >= IBV_WQ_FLAGS_RESERVED) return {EINVAL, "ibv_create_wq: unknown create_flags"};
  return (flags & ~kFlags) == 0 && (flags == 0 || context.hca->limits().max_frame_bytes != 0)
             ? Error{}
             : Error{EOPNOTSUPP, "ibv_create_wq: create_flags are for Ethernet frames"};
}

/// Code 0, or why the attributes are refused.
Error check(Context& context, const ibv_wq_init_attr& attributes) {
  if (attributes.wq_type != IBV_WQT_RQ) return {EINVAL, "ibv_create_wq: work queues are for receiving"};
  if (attributes.comp_mask >= IBV_WQ_INIT_ATTR_RESERVED)
    return {EINVAL, "ibv_create_wq: unknown bits in comp_mask"};
  if ((attributes.comp_mask & IBV_WQ_INIT_ATTR_FLAGS) != 0)
    if (const Error refusal = check_flags(context, attributes.create_flags); refusal.code != 0)
      return refusal;
  if (attributes.pd == nullptr || attributes.cq == nullptr)
    return {EINVAL, "ibv_create_wq: a domain and a completion queue are needed"};
  const ibv_context* own = &context.verbs.context;
  if (attributes.pd->context != own || attributes.cq->context != own)
    return {EINVAL, "ibv_create_wq: domain and completion queue are not of the same context"};
  const hw::Limits& limits = context.hca->limits();
  if (attributes.max_wr == 0 || attributes.max_wr > limits.max_qp_wr || attributes.max_sge > limits.max_sge)
    return {EINVAL, "ibv_create_wq: 1 to " + std::to_string(limits.max_qp_wr) + " work requests of at most " +
                        std::to_string(limits.max_sge) + " elements"};
  return {};
}

ibv_wq* create(ibv_context* public_context, ibv_wq_init_attr* attributes, const void* special) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  if (const Error refusal = check(*context, *attributes); refusal.code != 0)
    return refuse_pointer(*context, refusal);
  WorkQueue* wq = context->provider->create_wq(*context, *attributes, special);
  if (wq == nullptr) return nullptr;
  wq->context = context;
  wq->domain_use = DomainUse(*ProtectionDomain::of(attributes->pd));
  wq->base.context = public_context;
  wq->base.pd = attributes->pd;
  wq->base.cq = attributes->cq;
  wq->base.handle = wq->base.wq_num;
  wq->base.state = IBV_WQS_RESET;
  wq->base.wq_type = attributes->wq_type;
  return &wq->base;
}

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attributes) {
  return create(context, attributes, nullptr);
}

int modify_flags(Context& context, WorkQueue& wq, const ibv_wq_attr& attributes) {
  constexpr uint32_t kStrips = IBV_WQ_FLAGS_CVLAN_STRIPPING;
  if (attributes.flags_mask >= IBV_WQ_FLAGS_RESERVED)
    return refuse(context, EINVAL, "ibv_modify_wq: unknown flags");
  if ((attributes.flags_mask & ~kStrips) != 0 || context.hca->limits().max_frame_bytes == 0)
    return refuse(context, EOPNOTSUPP,
                  "ibv_modify_wq: no flag but CVLAN_STRIPPING, of Ethernet frames, changes later");
  return attributes.flags_mask == 0 ? 0 : context.provider->strip_vlan(wq, (attributes.flags & kStrips) != 0);
}

int modify_wq(ibv_wq* public_wq, ibv_wq_attr* attributes) {
  Context* context = usable(public_wq->context);
  if (context == nullptr) return EIO;
  const uint32_t mask = attributes->attr_mask;
  if (mask >= IBV_WQ_ATTR_RESERVED)
    return refuse(*context, EINVAL, "ibv_modify_wq: unknown bits in attr_mask");
  if ((mask & IBV_WQ_ATTR_FLAGS) != 0)
    if (const int error = modify_flags(*context, *WorkQueue::of(public_wq), *attributes)) return error;
  if ((mask & IBV_WQ_ATTR_STATE) == 0) return 0;
  const ibv_wq_state from =
      (mask & IBV_WQ_ATTR_CURR_STATE) != 0 ? attributes->curr_wq_state : public_wq->state;
  const auto beyond = [](ibv_wq_state state) { return static_cast<uint32_t>(state) > IBV_WQS_ERR; };
  if (beyond(from) || beyond(attributes->wq_state))
    return refuse(*context, EINVAL, "ibv_modify_wq: no such state");
  if (const int error = context->provider->modify_wq(*WorkQueue::of(public_wq), from, attributes->wq_state))
    return error;
  public_wq->state = attributes->wq_state;
  return 0;
}

int destroy_wq(ibv_wq* public_wq) {
  WorkQueue& wq = *WorkQueue::of(public_wq);
  Context& context = *wq.context;
  if (!context.abandoned)
    if (const int error = context.provider->destroy_wq(wq)) return error;
  context.async_events.forget(&wq);
  if (!context.abandoned)
    wait_for_acknowledgements(*public_wq, public_wq->events_completed, wq.async_reported);
  destroy_waiting(*public_wq);
  context.provider->free_wq(wq);
  return 0;
}

ibv_rwq_ind_table* create_table(ibv_context* public_context, ibv_rwq_ind_table_init_attr* attributes) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  if (attributes->comp_mask != 0)
    return refuse_pointer(*context, EINVAL, "ibv_create_rwq_ind_table: unknown bits in comp_mask");
  const uint32_t most = context->hca->limits().max_wq_table_size;
  if (attributes->log_ind_tbl_size >= 32 || 1u << attributes->log_ind_tbl_size > most)
    return refuse_pointer(
        *context, EINVAL,
        "ibv_create_rwq_ind_table: a table has at most " + std::to_string(most) + " entries");
  for (uint32_t i = 0; i < 1u << attributes->log_ind_tbl_size; i++)
    if (attributes->ind_tbl[i] == nullptr || attributes->ind_tbl[i]->context != public_context)
      return refuse_pointer(*context, EINVAL, "ibv_create_rwq_ind_table: a work queue of another context");
  auto table = std::unique_ptr<WorkQueueTable>(new (std::nothrow) WorkQueueTable);
  uint32_t number = 0;
  const int error =
      table == nullptr ? ENOMEM : context->provider->create_wq_table(*context, *attributes, number);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  table->context = context;
  table->base.context = public_context;
  table->base.ind_tbl_num = table->base.ind_tbl_handle = static_cast<int>(number);
  return &table.release()->base;
}

int destroy_table(ibv_rwq_ind_table* public_table) {
  WorkQueueTable& table = *WorkQueueTable::of(public_table);
  if (!table.context->abandoned)
    if (const int error = table.context->provider->destroy_wq_table(
            *table.context, static_cast<uint32_t>(public_table->ind_tbl_num)))
      return error;
  delete &table;
  return 0;
}

}  // namespace

// The header does the rest for what is made through the context's table.
extern "C" ibv_wq* verbatim_create_special_wq(ibv_context* context, ibv_wq_init_attr* attributes,
                                              const void* special) {
  ibv_wq* wq = create(context, attributes, special);
  if (wq == nullptr) return nullptr;
  wq->wq_context = attributes->wq_context;
  init_waiting(*wq);
  return wq;
}

void install_work_queue_operations(verbs_context& verbs) {
  verbs.create_wq = create_wq;
  verbs.modify_wq = modify_wq;
  verbs.destroy_wq = destroy_wq;
  verbs.create_rwq_ind_table = create_table;
  verbs.destroy_rwq_ind_table = destroy_table;
}

}  // namespace verbatim::verbs
