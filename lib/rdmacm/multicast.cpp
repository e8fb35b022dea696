// SPDX-License-Identifier: MIT
// Membership in multicast groups.
#include "lib/rdmacm/convert.h"
#include "lib/rdmacm/id.h"
#include "lib/rdmacm/result.h"
#include "lib/rdmacm/sockaddr.h"

namespace verbatim::rdmacm {
namespace {

int join(Id& id, const sockaddr* group, uint32_t flags, void* context) {
  Request request = request_for(id, Do::kJoinMulticast);
  if (!from_public(group, request.destination)) return fail(EINVAL);
  IdTable& table = IdTable::of_process();
  Membership wanted;
  wanted.context = context;
  wanted.join_flags = flags;
  std::memcpy(&wanted.address, group, length_of(group));
  // Known before the agent is asked: the event may come before the answer.
  Membership& membership = table.add_membership(id, wanted);
  request.context = membership.key;
  request.value = flags;
  Answer answer{};
  if (ask(request, answer) != 0) {
    const int error = errno;
    table.wait_and_forget(id, membership);
    return fail(error);
  }
  membership.number = answer.id;
  return complete(id);
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rdma_join_multicast(rdma_cm_id* id, sockaddr* addr, void* context) {
  return join(*Id::of(id), addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* mc_join_attr, void* context) {
  constexpr uint32_t kNeeded = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  if (mc_join_attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) return fail(ENOTSUP);
  if (mc_join_attr->comp_mask != kNeeded || mc_join_attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
    return fail(EINVAL);
  return join(*Id::of(id), mc_join_attr->addr, mc_join_attr->join_flags, context);
}

int rdma_leave_multicast(rdma_cm_id* public_id, sockaddr* addr) {
  Id& id = *Id::of(public_id);
  const socklen_t bytes = length_of(addr);
  if (bytes == 0) return fail(EINVAL);
  IdTable& table = IdTable::of_process();
  Membership* membership = table.take_membership(id, addr, bytes);
  if (membership == nullptr) return fail(EADDRNOTAVAIL);
  if (membership->attached && id.base.qp != nullptr)
    ibv_detach_mcast(id.base.qp, &membership->group, membership->lid);
  Request request = request_for(id, Do::kLeaveMulticast);
  request.id = membership->number;
  Answer answer{};
  const int result = ask(request, answer);
  const int error = errno;
  if (result == 0) take_off(*Channel::of(id.base.channel), answer.events_dropped);
  table.wait_and_forget(id, *membership);
  return result == 0 ? 0 : fail(error);
}

}  // extern "C"
