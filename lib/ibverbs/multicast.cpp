// SPDX-License-Identifier: MIT
// Multicast attachments of datagram queue pairs.
#include <algorithm>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/convert.h"

namespace verbatim::verbs {
namespace {

/// Keeps the public mutex of a queue pair.
class Hold {
 public:
  explicit Hold(ibv_qp& qp) : qp_(qp) { pthread_mutex_lock(&qp_.mutex); }
  ~Hold() { pthread_mutex_unlock(&qp_.mutex); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  ibv_qp& qp_;
};

}  // namespace
}  // namespace verbatim::verbs

using namespace verbatim;
using namespace verbatim::verbs;

extern "C" {

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t /*lid*/) {
  Context* context = usable(qp->context);
  if (context == nullptr) return EIO;
  verbs::QueuePair& pair = *verbs::QueuePair::of(qp);
  const Gid group = to_device(*gid);
  if (qp->qp_type != IBV_QPT_UD || !group.is_multicast())
    return refuse(*context, EINVAL, "ibv_attach_mcast: not a datagram queue pair, or no multicast GID",
                  qp->qp_num);
  const Hold hold(*qp);
  // A second attachment to the same group is no further one.
  if (std::find(pair.groups.begin(), pair.groups.end(), group) != pair.groups.end()) return 0;
  if (const int error = settle(*context, context->hca->attach_multicast(pair.device, group), qp->qp_num))
    return error;
  pair.groups.push_back(group);
  return 0;
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t /*lid*/) {
  Context* context = usable(qp->context);
  if (context == nullptr) return EIO;
  verbs::QueuePair& pair = *verbs::QueuePair::of(qp);
  const Gid group = to_device(*gid);
  const Hold hold(*qp);
  const auto found = std::find(pair.groups.begin(), pair.groups.end(), group);
  if (found == pair.groups.end())
    return refuse(*context, EINVAL, "ibv_detach_mcast: the queue pair is not attached to this group",
                  qp->qp_num);
  if (const int error = settle(*context, context->hca->detach_multicast(pair.device, group), qp->qp_num))
    return error;
  pair.groups.erase(found);
  return 0;
}

}  // extern "C"
