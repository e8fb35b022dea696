// SPDX-License-Identifier: MIT
// Shared receive queues.
#include "lib/rpma/srq.h"

#include "lib/rpma/peer.h"
#include "lib/rpma/posting.h"
#include "lib/rpma/settings.h"

using namespace verbatim::rpma;

namespace {

const rpma_srq_cfg kDefaults;

int close(rpma_srq& srq) {
  const int result = srq.rcq != nullptr ? srq.rcq->close() : 0;
  if (srq.queue == nullptr) return result;
  const int error = ibv_destroy_srq(srq.queue);
  return error == 0 || result != 0 ? result : fail_of_provider("ibv_destroy_srq", error);
}

int open(rpma_srq& srq, const rpma_peer& peer, const rpma_srq_cfg& settings) {
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = settings.rq_size;
  attributes.attr.max_sge = 1;
  srq.queue = ibv_create_srq(peer.domain, &attributes);
  if (srq.queue == nullptr) return fail_of_provider("ibv_create_srq", errno);
  const uint32_t completions = settings.rcq_size;
  return completions == 0 ? 0 : rpma_cq::make(peer.domain->context, completions, nullptr, srq.rcq);
}

}  // namespace

extern "C" {

int rpma_srq_new(rpma_peer* peer, rpma_srq_cfg* cfg, rpma_srq** srq_ptr) {
  if (peer == nullptr || srq_ptr == nullptr) return fail_of_null("peer or srq_ptr");
  std::unique_ptr<rpma_srq> srq(new (std::nothrow) rpma_srq);
  if (srq == nullptr) return fail_of_memory();
  if (const int result = open(*srq, *peer, cfg != nullptr ? *cfg : kDefaults); result != 0) {
    close(*srq);
    return result;
  }
  *srq_ptr = srq.release();
  return 0;
}

int rpma_srq_delete(rpma_srq** srq_ptr) {
  if (srq_ptr == nullptr) return fail_of_null("srq_ptr");
  const std::unique_ptr<rpma_srq> srq(*srq_ptr);
  *srq_ptr = nullptr;
  return srq != nullptr ? close(*srq) : 0;
}

int rpma_srq_recv(rpma_srq* srq, rpma_mr_local* dst, size_t offset, size_t len, const void* op_context) {
  if (srq == nullptr) return fail_of_null("srq");
  return post_receive(*srq->queue, dst, offset, len, op_context);
}

int rpma_srq_get_rcq(const rpma_srq* srq, rpma_cq** rcq_ptr) {
  if (srq == nullptr || rcq_ptr == nullptr) return fail_of_null("srq or rcq_ptr");
  *rcq_ptr = srq->rcq.get();
  return 0;
}

}  // extern "C"
