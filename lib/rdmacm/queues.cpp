// SPDX-License-Identifier: MIT
// Queue pairs and shared receive queues of ids, and the completion queues that are made for them.
#include "lib/rdmacm/result.h"
#include "lib/rdmacm/transitions.h"

namespace verbatim::rdmacm {
namespace {

/// A completion queue with a channel of its own.
bool make_queue(Id& id, uint32_t entries, ibv_comp_channel*& channel, ibv_cq*& cq) {
  channel = ibv_create_comp_channel(id.base.verbs);
  if (channel == nullptr) return false;
  cq = ibv_create_cq(id.base.verbs, static_cast<int>(entries), &id.base, channel, 0);
  if (cq != nullptr) return true;
  const int error = errno;
  ibv_destroy_comp_channel(channel);
  channel = nullptr;
  errno = error;
  return false;
}

void destroy_queue(ibv_comp_channel*& channel, ibv_cq*& cq) {
  ibv_destroy_cq(cq);
  ibv_destroy_comp_channel(channel);
  cq = nullptr;
  channel = nullptr;
}

void destroy_queues(Id& id) {
  const int error = errno;
  if (id.own_send_queue) destroy_queue(id.base.send_cq_channel, id.base.send_cq);
  if (id.own_receive_queue) destroy_queue(id.base.recv_cq_channel, id.base.recv_cq);
  id.own_send_queue = id.own_receive_queue = false;
  errno = error;
}

/// Makes what is asked for and not there: an entry for each work request, none for queues without any.
bool make_queues(Id& id, const ibv_qp_init_attr_ex& wanted) {
  const bool receives = wanted.recv_cq == nullptr && id.base.recv_cq == nullptr && wanted.cap.max_recv_wr > 0;
  const bool sends = wanted.send_cq == nullptr && id.base.send_cq == nullptr && wanted.cap.max_send_wr > 0;
  if (receives) {
    if (!make_queue(id, wanted.cap.max_recv_wr, id.base.recv_cq_channel, id.base.recv_cq)) return false;
    id.own_receive_queue = true;
  }
  if (sends) {
    if (!make_queue(id, wanted.cap.max_send_wr, id.base.send_cq_channel, id.base.send_cq)) {
      destroy_queues(id);
      return false;
    }
    id.own_send_queue = true;
  }
  return true;
}

bool differs(const ibv_cq* own, const ibv_cq* given) {
  return own != nullptr && given != nullptr && own != given;
}

/// 0, or why the attributes do not fit the id.
int check(const Id& id, const ibv_qp_init_attr_ex& wanted) {
  if (id.base.qp != nullptr || id.device == nullptr) return EINVAL;
  const bool has_domain = (wanted.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 && wanted.pd != nullptr;
  if (has_domain && wanted.pd->context != id.base.verbs) return EINVAL;
  return differs(id.base.recv_cq, wanted.recv_cq) || differs(id.base.send_cq, wanted.send_cq) ? EINVAL : 0;
}

/// The domains that the program leaves to the library.
bool fill_domains(Id& id, ibv_qp_init_attr_ex& wanted) {
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || wanted.pd == nullptr) wanted.pd = id.base.pd;
  wanted.comp_mask |= IBV_QP_INIT_ATTR_PD;
  if (id.base.qp_type != IBV_QPT_XRC_RECV) return true;
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 && wanted.xrcd != nullptr) return true;
  wanted.xrcd = Devices::of_process().domain_of_xrc(*id.device);
  wanted.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
  return wanted.xrcd != nullptr;
}

/// A queue pair in its first state; null with errno set.
ibv_qp* make_queue_pair(Id& id, ibv_qp_init_attr_ex& wanted) {
  if (wanted.send_cq == nullptr) wanted.send_cq = id.base.send_cq;
  if (wanted.recv_cq == nullptr) wanted.recv_cq = id.base.recv_cq;
  if (wanted.srq == nullptr) wanted.srq = id.base.srq;
  ibv_qp* qp = ibv_create_qp_ex(id.base.verbs, &wanted);
  if (qp == nullptr) return nullptr;
  if (agree_on_ece(id, qp) == 0 && make_ready(id, qp) == 0 && note_ece(id, qp) == 0) return qp;
  const int error = errno;
  ibv_destroy_qp(qp);
  return fail_pointer(error);
}

/// The completion queue and domain of an SRQ for many peers' queue pairs.
bool fill_shared(Id& id, ibv_srq_init_attr_ex& wanted) {
  if ((wanted.comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0 || wanted.xrcd == nullptr)
    wanted.xrcd = Devices::of_process().domain_of_xrc(*id.device);
  if (wanted.xrcd == nullptr) return false;
  if ((wanted.comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0 || wanted.cq == nullptr) {
    // The queue pair of an XRC receiver has no use for one that was made with it.
    if (id.base.recv_cq == nullptr &&
        !make_queue(id, wanted.attr.max_wr, id.base.recv_cq_channel, id.base.recv_cq))
      return false;
    id.own_receive_queue = false;
    id.queue_of_srq = true;
    wanted.cq = id.base.recv_cq;
  }
  wanted.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  return true;
}

void destroy_queue_of_srq(Id& id) {
  const int error = errno;
  if (id.queue_of_srq) destroy_queue(id.base.recv_cq_channel, id.base.recv_cq);
  id.queue_of_srq = false;
  errno = error;
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rdma_create_qp_ex(rdma_cm_id* public_id, ibv_qp_init_attr_ex* qp_init_attr) {
  Id& id = *Id::of(public_id);
  if (const int error = check(id, *qp_init_attr); error != 0) return fail(error);
  if (!fill_domains(id, *qp_init_attr) || !make_queues(id, *qp_init_attr)) return -1;
  ibv_qp* qp = make_queue_pair(id, *qp_init_attr);
  if (qp == nullptr) {
    destroy_queues(id);
    return -1;
  }
  id.base.pd = qp->pd;
  id.base.qp = qp;
  return 0;
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) {
  ibv_qp_init_attr_ex extended{};
  // The extended record begins as the other one does.
  std::memcpy(static_cast<void*>(&extended), qp_init_attr, sizeof *qp_init_attr);
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd != nullptr ? pd : id->pd;
  const int result = rdma_create_qp_ex(id, &extended);
  std::memcpy(qp_init_attr, &extended, sizeof *qp_init_attr);
  return result;
}

void rdma_destroy_qp(rdma_cm_id* id) {
  ibv_destroy_qp(id->qp);
  id->qp = nullptr;
  destroy_queues(*Id::of(id));
}

int rdma_create_srq_ex(rdma_cm_id* public_id, ibv_srq_init_attr_ex* attr) {
  Id& id = *Id::of(public_id);
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || id.device == nullptr) return fail(EINVAL);
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr) attr->pd = id.base.pd;
  attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  if (attr->srq_type == IBV_SRQT_XRC && !fill_shared(id, *attr)) return -1;
  ibv_srq* srq = ibv_create_srq_ex(id.base.verbs, attr);
  if (srq == nullptr) {
    destroy_queue_of_srq(id);
    return -1;
  }
  if (id.base.pd == nullptr) id.base.pd = attr->pd;
  id.base.srq = srq;
  return 0;
}

int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attr) {
  ibv_srq_init_attr_ex extended{};
  extended.srq_context = attr->srq_context;
  extended.attr = attr->attr;
  extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  extended.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  extended.pd = pd;
  const int result = rdma_create_srq_ex(id, &extended);
  attr->attr = extended.attr;
  return result;
}

void rdma_destroy_srq(rdma_cm_id* id) {
  ibv_destroy_srq(id->srq);
  id->srq = nullptr;
  destroy_queue_of_srq(*Id::of(id));
}

}  // extern "C"
