// SPDX-License-Identifier: MIT
// Names resolved for an id, with an event when that has ended.
#include <netdb.h>

#include "lib/rdmacm/id.h"
#include "lib/rdmacm/result.h"
#include "lib/rdmacm/transitions.h"

namespace verbatim::rdmacm {
namespace {

/// The errno value that stands for what getaddrinfo() says.
int error_of(int answer) {
  switch (answer) {
    case EAI_SYSTEM:
      return errno;
    case EAI_AGAIN:
      return EAGAIN;
    case EAI_FAMILY:
    case EAI_SOCKTYPE:
    case EAI_BADFLAGS:
      return EINVAL;
    default:
      return answer == -1 ? errno : ENOENT;
  }
}

/// Resolves at once and queues the event about it; nothing is queued for what could not be begun.
int resolve(Id& id, const char* node, const char* service, const rdma_addrinfo* hints) {
  rdma_addrinfo* found = nullptr;
  const int answer = rdma_getaddrinfo(node, service, hints, &found);
  if (answer == -1) return -1;
  const int status = answer == 0 ? 0 : -error_of(answer);
  const auto type = answer == 0 ? RDMA_CM_EVENT_ADDRINFO_RESOLVED : RDMA_CM_EVENT_ADDRINFO_ERROR;
  id.resolved = found;
  if (write_event(id, RDMA_CM_EVENT_INTERNAL, status, type) == 0) return 0;
  const int error = errno;
  rdma_freeaddrinfo(found);
  id.resolved = nullptr;
  return fail(error);
}

int check(const rdma_addrinfo* hints) {
  if (hints == nullptr || (hints->ai_flags & RAI_SA) == 0) return 0;
  // Services are of InfiniBand's subnets, which ids are not bound to.
  return (hints->ai_flags & RAI_DNS) != 0 ? ENOTSUP : EOPNOTSUPP;
}

}  // namespace

int write_event(Id& id, rdma_cm_event_type type, int status, uint64_t argument) {
  Request request = request_for(id, Do::kWriteEvent);
  request.value = type;
  request.status = status;
  request.argument = argument;
  Answer answer{};
  return ask(request, answer);
}

}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rdma_resolve_addrinfo(rdma_cm_id* public_id, const char* node, const char* service,
                          const rdma_addrinfo* hints) {
  if (public_id == nullptr) return fail(EINVAL);
  Id& id = *Id::of(public_id);
  if (id.resolving.exchange(true)) return fail(EBUSY);
  const int refusal = check(hints);
  const int result = refusal != 0 ? fail(refusal) : resolve(id, node, service, hints);
  if (result != 0) {
    id.resolving = false;
    return -1;
  }
  return complete(id);
}

int rdma_query_addrinfo(rdma_cm_id* public_id, rdma_addrinfo** info) {
  if (public_id == nullptr || info == nullptr) return fail(EINVAL);
  Id& id = *Id::of(public_id);
  if (!id.resolving || id.resolved == nullptr) return fail(ENOENT);
  *info = id.resolved;
  id.resolved = nullptr;
  id.resolving = false;
  return 0;
}

}  // extern "C"
