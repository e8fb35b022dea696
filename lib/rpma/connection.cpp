// SPDX-License-Identifier: MIT
// Connections: their events, what belongs to them, their end.
#include "lib/rpma/connection.h"

#include "lib/rpma/log.h"

using namespace verbatim::rpma;

int rpma_conn::prepare(const Link& of) {
  qp = of.id->qp;
  const Capabilities& can = of.peer->can;
  if (can.atomic_write) atomic_writes = ibv_qp_to_qp_ex(qp);
  if (can.flush) flushes = ibv_qp_to_qp_ex(qp);
  if (flushes != nullptr) return 0;
  read_back_region = ibv_reg_mr(of.peer->domain, &read_back, sizeof read_back, IBV_ACCESS_LOCAL_WRITE);
  return read_back_region != nullptr ? 0 : fail_of_provider("ibv_reg_mr", errno);
}

int rpma_conn::close() {
  int result = link != nullptr ? link->close() : 0;
  if (read_back_region != nullptr)
    if (const int error = ibv_dereg_mr(read_back_region); error != 0)
      keep_first(result, fail_of_provider("ibv_dereg_mr", error));
  read_back_region = nullptr;
  return result;
}

namespace {

/// What an event of the connection manager means. RPMA_CONN_UNDEFINED: nothing that is expected here.
rpma_conn_event meaning_of(rdma_cm_event_type event) {
  switch (event) {
    case RDMA_CM_EVENT_ESTABLISHED:
      return RPMA_CONN_ESTABLISHED;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return RPMA_CONN_LOST;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return RPMA_CONN_CLOSED;
    case RDMA_CM_EVENT_REJECTED:
      return RPMA_CONN_REJECTED;
    case RDMA_CM_EVENT_UNREACHABLE:
      return RPMA_CONN_UNREACHABLE;
    default:
      return RPMA_CONN_UNDEFINED;
  }
}

}  // namespace

extern "C" {

int rpma_conn_get_event_fd(const rpma_conn* conn, int* fd) {
  if (conn == nullptr || fd == nullptr) return fail_of_null("conn or fd");
  *fd = conn->link->events->fd;
  return 0;
}

int rpma_conn_next_event(rpma_conn* conn, rpma_conn_event* event) {
  if (conn == nullptr || event == nullptr) return fail_of_null("conn or event");
  rdma_cm_event* next = nullptr;
  if (rdma_get_cm_event(conn->link->events, &next) != 0) {
    if (errno != EAGAIN && errno != ENODATA) return fail_of_provider("rdma_get_cm_event", errno);
    log(RPMA_LOG_LEVEL_DEBUG, "no event waits");
    return RPMA_E_NO_EVENT;
  }
  const rdma_cm_event_type type = next->event;
  PrivateData& data = conn->link->data;
  if (type == RDMA_CM_EVENT_ESTABLISHED && data.empty()) data.take(next->param.conn);
  if (rdma_ack_cm_event(next) != 0) return fail_of_provider("rdma_ack_cm_event", errno);
  *event = meaning_of(type);
  if (*event == RPMA_CONN_UNDEFINED) return fail(RPMA_E_UNKNOWN, "{} is not expected", rdma_event_str(type));
  log(RPMA_LOG_LEVEL_NOTICE, "{}", rpma_utils_conn_event_2str(*event));
  return 0;
}

int rpma_conn_get_private_data(const rpma_conn* conn, rpma_conn_private_data* pdata) {
  if (conn == nullptr || pdata == nullptr) return fail_of_null("conn or pdata");
  *pdata = conn->link->data.view();
  return 0;
}

int rpma_conn_apply_remote_peer_cfg(rpma_conn* conn, const rpma_peer_cfg* pcfg) {
  if (conn == nullptr || pcfg == nullptr) return fail_of_null("conn or pcfg");
  bool direct = false;
  const int result = rpma_peer_cfg_get_direct_write_to_pmem(pcfg, &direct);
  if (result == 0) conn->direct_write_to_pmem = direct;
  return result;
}

int rpma_conn_get_qp_num(const rpma_conn* conn, uint32_t* qp_num) {
  if (conn == nullptr || qp_num == nullptr) return fail_of_null("conn or qp_num");
  *qp_num = conn->qp->qp_num;
  return 0;
}

int rpma_conn_get_cq(const rpma_conn* conn, rpma_cq** cq_ptr) {
  if (conn == nullptr || cq_ptr == nullptr) return fail_of_null("conn or cq_ptr");
  *cq_ptr = conn->link->cq.get();
  return 0;
}

int rpma_conn_get_rcq(const rpma_conn* conn, rpma_cq** rcq_ptr) {
  if (conn == nullptr || rcq_ptr == nullptr) return fail_of_null("conn or rcq_ptr");
  *rcq_ptr = conn->link->rcq.get();
  return 0;
}

int rpma_conn_get_compl_fd(const rpma_conn* conn, int* fd) {
  if (conn == nullptr || fd == nullptr) return fail_of_null("conn or fd");
  if (conn->link->shared_channel == nullptr)
    return fail(RPMA_E_NOT_SHARED_CHNL,
                "the connection has no shared channel: rpma_cq_get_fd tells each queue's");
  *fd = conn->link->shared_channel->fd;
  return 0;
}

int rpma_conn_wait(rpma_conn* conn, int /*flags*/, rpma_cq** cq, bool* is_rcq) {
  if (conn == nullptr || cq == nullptr) return fail_of_null("conn or cq");
  const Link& link = *conn->link;
  if (link.shared_channel == nullptr)
    return fail(RPMA_E_NOT_SHARED_CHNL, "the connection has no shared channel: wait with rpma_cq_wait");
  ibv_cq* of = nullptr;
  if (const int result = next_event(link.shared_channel, of); result != 0) return result;
  const bool receives = link.rcq != nullptr && link.rcq->queue == of;
  if (!receives && link.cq->queue != of)
    return fail(RPMA_E_UNKNOWN, "an event of a queue that is not the connection's");
  *cq = receives ? link.rcq.get() : link.cq.get();
  if (is_rcq != nullptr) *is_rcq = receives;
  return 0;
}

int rpma_conn_disconnect(rpma_conn* conn) {
  if (conn == nullptr) return fail_of_null("conn");
  if (rdma_disconnect(conn->link->id) != 0) return fail_of_provider("rdma_disconnect", errno);
  log(RPMA_LOG_LEVEL_NOTICE, "the connection is being closed");
  return 0;
}

int rpma_conn_delete(rpma_conn** conn_ptr) {
  if (conn_ptr == nullptr) return fail_of_null("conn_ptr");
  const std::unique_ptr<rpma_conn> conn(*conn_ptr);
  *conn_ptr = nullptr;
  return conn != nullptr ? conn->close() : 0;
}

}  // extern "C"
