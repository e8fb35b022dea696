// SPDX-License-Identifier: MIT
// Peers.
#include "lib/rpma/peer.h"

#include <memory>

#include "lib/rpma/log.h"

using namespace verbatim::rpma;

namespace {

int allocate_domain(ibv_context* verbs, ibv_pd*& domain) {
  errno = 0;
  domain = ibv_alloc_pd(verbs);
  if (domain != nullptr) return 0;
  if (errno == ENOMEM) return fail_of_memory();
  if (errno == 0) return fail(RPMA_E_UNKNOWN, "ibv_alloc_pd failed and does not say why");
  return fail_of_provider("ibv_alloc_pd", errno);
}

}  // namespace

extern "C" {

int rpma_peer_new(ibv_context* ibv_ctx, rpma_peer** peer_ptr) {
  if (ibv_ctx == nullptr || peer_ptr == nullptr) return fail_of_null("ibv_ctx or peer_ptr");
  std::unique_ptr<rpma_peer> peer(new (std::nothrow) rpma_peer);
  if (peer == nullptr) return fail_of_memory();
  if (const int result = query(ibv_ctx, peer->can); result != 0) return result;
  if (const int result = allocate_domain(ibv_ctx, peer->domain); result != 0) return result;
  if (!peer->can.flush) log(RPMA_LOG_LEVEL_INFO, "the device has no flush: reads take its place");
  if (!peer->can.atomic_write)
    log(RPMA_LOG_LEVEL_INFO, "the device has no atomic write: writes take its place");
  *peer_ptr = peer.release();
  return 0;
}

int rpma_peer_delete(rpma_peer** peer_ptr) {
  if (peer_ptr == nullptr) return fail_of_null("peer_ptr");
  if (*peer_ptr == nullptr) return 0;
  // What is still made on it keeps it, and it can be tried again.
  if (const int error = ibv_dealloc_pd((*peer_ptr)->domain); error != 0)
    return fail_of_provider("ibv_dealloc_pd", error);
  delete *peer_ptr;
  *peer_ptr = nullptr;
  return 0;
}

}  // extern "C"
