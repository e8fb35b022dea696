// SPDX-License-Identifier: MIT
// Options of connections (enhanced connection establishment): each end says what it could do, one of them
// what both will. What a queue pair was told comes into force with its next transition.
#include "lib/ibverbs/contexts.h"

namespace verbatim::verbs {
namespace {

/// Code 0 and what is left of the options, or why they are refused.
Error agree(const hw::Limits& limits, ibv_ece& ece) {
  if (ece.comp_mask != 0) return {EINVAL, "unknown bits in comp_mask"};
  if (ece.vendor_id != limits.ece_vendor_id) return {EINVAL, "they are options of another vendor's devices"};
  const uint32_t common = ece.options & limits.ece_options;
  if (ece.options != 0 && common == 0) return {EINVAL, "the device knows none of the options"};
  ece.options = common;
  return {};
}

}  // namespace
}  // namespace verbatim::verbs

using namespace verbatim;
using namespace verbatim::verbs;

extern "C" {

int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  const Context* context = usable(qp->context);
  if (context == nullptr) return EIO;
  const uint32_t vendor = context->hca->limits().ece_vendor_id;
  if (vendor == 0) return EOPNOTSUPP;
  *ece = {vendor, QueuePair::of(qp)->ece.now, 0};
  return 0;
}

int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  Context* context = usable(qp->context);
  if (context == nullptr) return errno = EIO;
  if (ece->vendor_id == 0) return errno = EOPNOTSUPP;
  if (const Error why = agree(context->hca->limits(), *ece); why.code != 0)
    return errno = refuse(*context, why.code, "ibv_set_ece: " + why.reason, qp->qp_num);
  QueuePair& pair = *QueuePair::of(qp);
  pair.ece = {0, ece->options, true};
  return 0;
}

}  // extern "C"
