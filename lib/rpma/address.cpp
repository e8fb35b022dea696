// SPDX-License-Identifier: MIT
#include "lib/rpma/address.h"

#include <netdb.h>

#include "lib/rpma/log.h"

namespace verbatim::rpma {

int Address::find(const char* node, const char* port, End end) {
  rdma_addrinfo hints{};
  if (end == End::kListening) hints.ai_flags = RAI_PASSIVE;
  hints.ai_qp_type = IBV_QPT_RC;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* found = nullptr;
  const int result = rdma_getaddrinfo(node, port, &hints, &found);
  if (result == 0) {
    info_.reset(found);
    return 0;
  }
  const bool by_errno = result == -1 || result == EAI_SYSTEM;
  if (by_errno && errno == ENOMEM) return fail_of_memory();
  return fail(RPMA_E_PROVIDER, "rdma_getaddrinfo for {} port {} failed: {}", node,
              port != nullptr ? port : "any", by_errno ? std::strerror(errno) : gai_strerror(result));
}

int Address::bind(rdma_cm_id* id) const {
  return rdma_bind_addr(id, info_->ai_src_addr) == 0 ? 0 : fail_of_provider("rdma_bind_addr", errno);
}

int Address::resolve(rdma_cm_id* id, int timeout_ms) const {
  if (rdma_resolve_addr(id, info_->ai_src_addr, info_->ai_dst_addr, timeout_ms) == 0) return 0;
  return fail_of_provider("rdma_resolve_addr", errno);
}

}  // namespace verbatim::rpma
