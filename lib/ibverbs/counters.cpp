// SPDX-License-Identifier: MIT
// Counters of what rules steer.
#include "lib/ibverbs/counters.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/operations.h"

namespace verbatim::verbs {
namespace {

ibv_counters* create_counters(ibv_context* public_context, ibv_counters_init_attr* attributes) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  if (attributes->comp_mask != 0)
    return refuse_pointer(*context, EOPNOTSUPP, "ibv_create_counters: unknown bits in comp_mask");
  if (context->hca->limits().max_frame_bytes == 0)
    return refuse_pointer(
        *context, EOPNOTSUPP,
        "ibv_create_counters: counters are of Ethernet frames, which this port does not take");
  auto* counters = new (std::nothrow) Counters;
  if (counters == nullptr)
    return refuse_pointer(*context, ENOMEM, "ibv_create_counters: no memory for counters");
  counters->base.context = public_context;
  return &counters->base;
}

int destroy_counters(ibv_counters* public_counters) {
  Counters* counters = Counters::of(public_counters);
  Context& context = *Context::of(public_counters->context);
  if (counters->flows != 0 && !context.abandoned)
    return refuse(context, EBUSY, "ibv_destroy_counters: rules still count there");
  delete counters;
  return 0;
}

int attach_point(ibv_counters* public_counters, ibv_counter_attach_attr* attributes, ibv_flow* flow) {
  constexpr size_t kPointsMax = 1024;
  Context& context = *Context::of(public_counters->context);
  Counters& counters = *Counters::of(public_counters);
  const auto refused = [&](int code, const char* why) {
    return refuse(context, code, std::string("ibv_attach_counters_point_flow: ") + why);
  };
  if (flow != nullptr) return refused(ENOTSUP, "the device's rules take counters when they are made");
  if (attributes->comp_mask != 0) return refused(EOPNOTSUPP, "unknown bits in comp_mask");
  if (static_cast<uint32_t>(attributes->counter_desc) > IBV_COUNTER_BYTES)
    return refused(ENOTSUP, "rules count packets and bytes");
  const std::lock_guard hold(counters.lock);
  if (counters.flows != 0) return refused(EBUSY, "rules count there already");
  if (counters.points.size() == kPointsMax) return refused(ENOMEM, "1024 points are attached");
  counters.points.push_back({attributes->index, attributes->counter_desc});
  return 0;
}

int read_counters(ibv_counters* public_counters, uint64_t* values, uint32_t count, uint32_t flags) {
  Context& context = *Context::of(public_counters->context);
  Counters& counters = *Counters::of(public_counters);
  if ((flags & ~static_cast<uint32_t>(IBV_READ_COUNTERS_ATTR_PREFER_CACHED)) != 0)
    return refuse(context, EINVAL, "ibv_read_counters: unknown flags");
  const std::lock_guard hold(counters.lock);
  for (const Counters::Point& point : counters.points)
    if (point.index >= count)
      return refuse(context, EINVAL,
                    "ibv_read_counters: points are attached beyond the values that are read");
  std::fill_n(values, count, uint64_t{0});
  for (const auto& [index, what] : counters.points)
    values[index] += (what == IBV_COUNTER_PACKETS ? counters.count->frames : counters.count->bytes).load();
  return 0;
}

}  // namespace

void install_counter_operations(verbs_context& verbs) {
  verbs.create_counters = create_counters;
  verbs.destroy_counters = destroy_counters;
  verbs.attach_counters_point_flow = attach_point;
  verbs.read_counters = read_counters;
}

}  // namespace verbatim::verbs
