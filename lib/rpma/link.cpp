// SPDX-License-Identifier: MIT
#include "lib/rpma/link.h"

#include "lib/rpma/log.h"
#include "lib/rpma/srq.h"

namespace verbatim::rpma {
namespace {

constexpr uint32_t kInlineBytes = RPMA_ATOMIC_WRITE_ALIGNMENT;  // an atomic write's data goes along

int make_completion_queues(Link& link, const rpma_conn_cfg& settings, bool srq_has_its_own) {
  ibv_context* verbs = link.id->verbs;
  if (settings.shared_channel) {
    if (srq_has_its_own)
      return fail(RPMA_E_INVAL, "the shared receive queue completes elsewhere: the channel cannot be shared");
    link.shared_channel = ibv_create_comp_channel(verbs);
    if (link.shared_channel == nullptr) return fail_of_provider("ibv_create_comp_channel", errno);
  }
  if (const int result = rpma_cq::make(verbs, settings.cq_size, link.shared_channel, link.cq); result != 0)
    return result;
  const uint32_t receives = settings.rcq_size;
  if (srq_has_its_own || receives == 0) return 0;
  return rpma_cq::make(verbs, receives, link.shared_channel, link.rcq);
}

int make_queue_pair(const Link& link, const rpma_conn_cfg& settings, const rpma_srq* srq) {
  const rpma_cq* receives = srq != nullptr && srq->rcq != nullptr ? srq->rcq.get() : link.rcq.get();
  ibv_qp_init_attr_ex attributes{};
  attributes.send_cq = link.cq->queue;
  attributes.recv_cq = receives != nullptr ? receives->queue : link.cq->queue;
  attributes.srq = srq != nullptr ? srq->queue : nullptr;
  attributes.cap = {settings.sq_size, settings.rq_size, 1, 1, kInlineBytes};
  attributes.qp_type = IBV_QPT_RC;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
  attributes.pd = link.peer->domain;
  const Capabilities& can = link.peer->can;
  if (can.any_operation()) {
    attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if (can.atomic_write) attributes.send_ops_flags |= IBV_QP_EX_WITH_ATOMIC_WRITE;
    if (can.flush) attributes.send_ops_flags |= IBV_QP_EX_WITH_FLUSH;
  }
  if (rdma_create_qp_ex(link.id, &attributes) == 0) return 0;
  const int error = errno;
  log(RPMA_LOG_LEVEL_ERROR, "a queue pair for {} sends and {} receives cannot be had{}",
      settings.sq_size.load(), settings.rq_size.load(),
      link.id->verbs != link.peer->domain->context ? ": the peer is of another device" : "");
  return fail_of_provider("rdma_create_qp_ex", error);
}

}  // namespace

int Link::build(const rpma_conn_cfg& settings) {
  const rpma_srq* srq = settings.srq;
  const bool srq_has_its_own = srq != nullptr && srq->rcq != nullptr;
  if (const int result = make_completion_queues(*this, settings, srq_has_its_own); result != 0) return result;
  if (const int result = make_queue_pair(*this, settings, srq); result != 0) return result;
  events = rdma_create_event_channel();
  if (events == nullptr) return fail_of_provider("rdma_create_event_channel", errno);
  return rdma_migrate_id(id, events) == 0 ? 0 : fail_of_provider("rdma_migrate_id", errno);
}

int Link::close() {
  const int reason = errno;  // of the failure that may have brought us here
  int result = 0;
  if (id != nullptr && id->qp != nullptr) rdma_destroy_qp(id);
  if (rcq != nullptr) keep_first(result, rcq->close());
  if (cq != nullptr) keep_first(result, cq->close());
  if (is_asked && rdma_reject(id, nullptr, 0) != 0)
    keep_first(result, fail_of_provider("rdma_reject", errno));
  if (id != nullptr && rdma_destroy_id(id) != 0)
    keep_first(result, fail_of_provider("rdma_destroy_id", errno));
  if (shared_channel != nullptr)
    if (const int error = ibv_destroy_comp_channel(shared_channel); error != 0)
      keep_first(result, fail_of_provider("ibv_destroy_comp_channel", error));
  if (events != nullptr) rdma_destroy_event_channel(events);
  id = nullptr;
  shared_channel = nullptr;
  events = nullptr;
  is_asked = false;
  rcq.reset();
  cq.reset();
  if (result == 0) errno = reason;
  return result;
}

}  // namespace verbatim::rpma
