// SPDX-License-Identifier: MIT
// Completion counters.
#include <algorithm>
#include <cstring>
#include <new>

#include "lib/ibverbs/contexts.h"

namespace verbatim::verbs {
namespace {

/// The public part comes first.
struct CompletionCounter {
  ibv_comp_cntr base{};
  hw::CompletionCounter* device = nullptr;

  static CompletionCounter* of(ibv_comp_cntr* counter) {
    return reinterpret_cast<CompletionCounter*>(counter);
  }
};

/// One of the two values, if calls on the counter can work.
template <class Change>
int change(ibv_comp_cntr* counter, const Change& apply) {
  if (const int error = check_usable(counter->context)) return error;
  apply(*CompletionCounter::of(counter)->device);
  return 0;
}

}  // namespace
}  // namespace verbatim::verbs

using namespace verbatim;
using namespace verbatim::verbs;

extern "C" {

int _ibv_query_comp_cntr_caps(ibv_context* public_context, ibv_comp_cntr_caps* caps, size_t caps_size) {
  const Context* context = usable(public_context);
  if (context == nullptr) return EIO;
  const hw::Limits& limits = context->hca->limits();
  const ibv_comp_cntr_caps known{UINT64_MAX, limits.max_completion_counters, limits.counted_operations};
  std::memset(caps, 0, caps_size);
  std::memcpy(caps, &known, std::min(caps_size, sizeof known));
  return 0;
}

ibv_comp_cntr* ibv_create_comp_cntr(ibv_context* public_context, ibv_comp_cntr_init_attr* attributes) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  if (attributes->comp_mask != 0 || attributes->flags != 0)
    return refuse_pointer(*context, EINVAL, "ibv_create_comp_cntr: unknown bits in comp_mask or flags");
  if (attributes->type > IBV_COMP_CNTR_TYPE_BYTES)
    return refuse_pointer(*context, EOPNOTSUPP,
                          "ibv_create_comp_cntr: the device has no counters of that type");
  auto counter = std::unique_ptr<CompletionCounter>(new (std::nothrow) CompletionCounter);
  if (counter == nullptr) return refuse_pointer(*context, ENOMEM, "no memory for a completion counter");
  const auto device = context->hca->create_completion_counter(attributes->type == IBV_COMP_CNTR_TYPE_BYTES);
  if (!device) return refuse_pointer(*context, device.error());
  counter->base = {public_context, (*device)->number};
  counter->device = *device;
  return &counter.release()->base;
}

int ibv_destroy_comp_cntr(ibv_comp_cntr* public_counter) {
  CompletionCounter* counter = CompletionCounter::of(public_counter);
  Context& context = *Context::of(public_counter->context);
  if (!context.abandoned)
    if (const int error = settle(context, context.hca->destroy_completion_counter(counter->device)))
      return error;
  delete counter;
  return 0;
}

int ibv_set_comp_cntr(ibv_comp_cntr* counter, uint64_t value) {
  return change(counter, [=](hw::CompletionCounter& device) { device.succeeded = value; });
}

int ibv_set_err_comp_cntr(ibv_comp_cntr* counter, uint64_t value) {
  return change(counter, [=](hw::CompletionCounter& device) { device.failed = value; });
}

int ibv_inc_comp_cntr(ibv_comp_cntr* counter, uint64_t amount) {
  return change(counter, [=](hw::CompletionCounter& device) { device.succeeded += amount; });
}

int ibv_inc_err_comp_cntr(ibv_comp_cntr* counter, uint64_t amount) {
  return change(counter, [=](hw::CompletionCounter& device) { device.failed += amount; });
}

int ibv_read_comp_cntr(ibv_comp_cntr* counter, uint64_t* value) {
  return change(counter, [=](const hw::CompletionCounter& device) { *value = device.succeeded; });
}

int ibv_read_err_comp_cntr(ibv_comp_cntr* counter, uint64_t* value) {
  return change(counter, [=](const hw::CompletionCounter& device) { *value = device.failed; });
}

int ibv_qp_attach_comp_cntr(ibv_qp* public_qp, ibv_comp_cntr* counter,
                            ibv_qp_attach_comp_cntr_attr* attributes) {
  Context* context = usable(public_qp->context);
  if (context == nullptr) return EIO;
  const QueuePair& qp = *QueuePair::of(public_qp);
  if (attributes->comp_mask != 0)
    return refuse(*context, EINVAL, "ibv_qp_attach_comp_cntr: unknown bits in comp_mask");
  if (counter->context != public_qp->context)
    return refuse(*context, EINVAL, "ibv_qp_attach_comp_cntr: the counter is another context's");
  if (qp.device == nullptr)
    return refuse(*context, EOPNOTSUPP,
                  "ibv_qp_attach_comp_cntr: the queue pair only spreads what it receives");
  return settle(*context,
                context->hca->attach_completion_counter(qp.device, CompletionCounter::of(counter)->device,
                                                        attributes->op_mask),
                public_qp->qp_num);
}

}  // extern "C"
