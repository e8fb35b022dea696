// SPDX-License-Identifier: MIT
// Listening, and the requests that come.
#include "lib/rpma/address.h"
#include "lib/rpma/log.h"
#include "lib/rpma/request.h"

/// A listening id with its events.
struct rpma_ep {
  rpma_peer* peer = nullptr;
  rdma_cm_id* id = nullptr;
  rdma_event_channel* events = nullptr;

  ~rpma_ep() {
    if (id != nullptr) rdma_destroy_id(id);
    if (events != nullptr) rdma_destroy_event_channel(events);
  }
};

using namespace verbatim::rpma;

namespace {

constexpr int kAsManyAsCanWait = 0;

int listen_at(rpma_ep& endpoint, const char* address, const char* port) {
  Address at;
  if (const int result = at.find(address, port, End::kListening); result != 0) return result;
  endpoint.events = rdma_create_event_channel();
  if (endpoint.events == nullptr) return fail_of_provider("rdma_create_event_channel", errno);
  if (rdma_create_id(endpoint.events, &endpoint.id, nullptr, RDMA_PS_TCP) != 0)
    return fail_of_provider("rdma_create_id", errno);
  if (const int result = at.bind(endpoint.id); result != 0) return result;
  return rdma_listen(endpoint.id, kAsManyAsCanWait) == 0 ? 0 : fail_of_provider("rdma_listen", errno);
}

int next(rdma_event_channel* channel, rdma_cm_event*& event) {
  if (rdma_get_cm_event(channel, &event) == 0) return 0;
  if (errno != EAGAIN && errno != ENODATA) return fail_of_provider("rdma_get_cm_event", errno);
  log(RPMA_LOG_LEVEL_DEBUG, "no request waits");
  return RPMA_E_NO_EVENT;
}

/// Takes the request out of its event, which goes back.
int take(rdma_cm_event* event, Link& link) {
  const bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
  if (!is_request) log(RPMA_LOG_LEVEL_ERROR, "{} is no connection request", rdma_event_str(event->event));
  if (is_request) {
    link.id = event->id;
    link.is_asked = true;
    link.data.take(event->param.conn);
  }
  if (rdma_ack_cm_event(event) != 0) return fail_of_provider("rdma_ack_cm_event", errno);
  return is_request ? 0 : RPMA_E_INVAL;
}

}  // namespace

extern "C" {

int rpma_ep_listen(rpma_peer* peer, const char* addr, const char* port, rpma_ep** ep_ptr) {
  if (peer == nullptr || addr == nullptr || port == nullptr || ep_ptr == nullptr)
    return fail_of_null("peer, addr, port or ep_ptr");
  std::unique_ptr<rpma_ep> endpoint(new (std::nothrow) rpma_ep);
  if (endpoint == nullptr) return fail_of_memory();
  endpoint->peer = peer;
  if (const int result = listen_at(*endpoint, addr, port); result != 0) return result;
  log(RPMA_LOG_LEVEL_NOTICE, "listening at {} port {}", addr, port);
  *ep_ptr = endpoint.release();
  return 0;
}

int rpma_ep_shutdown(rpma_ep** ep_ptr) {
  if (ep_ptr == nullptr) return fail_of_null("ep_ptr");
  if (*ep_ptr == nullptr) return 0;
  if (rdma_destroy_id((*ep_ptr)->id) != 0) return fail_of_provider("rdma_destroy_id", errno);
  (*ep_ptr)->id = nullptr;
  delete *ep_ptr;
  *ep_ptr = nullptr;
  return 0;
}

int rpma_ep_get_fd(const rpma_ep* ep, int* fd) {
  if (ep == nullptr || fd == nullptr) return fail_of_null("ep or fd");
  *fd = ep->events->fd;
  return 0;
}

int rpma_ep_next_conn_req(rpma_ep* ep, const rpma_conn_cfg* cfg, rpma_conn_req** req_ptr) {
  if (ep == nullptr || req_ptr == nullptr) return fail_of_null("ep or req_ptr");
  rdma_cm_event* event = nullptr;
  if (const int result = next(ep->events, event); result != 0) return result;
  std::unique_ptr<rpma_conn_req> request = make_request(ep->peer);
  if (request == nullptr) {
    Link lost;  // declines
    take(event, lost);
    return fail_of_memory();
  }
  request->is_incoming = true;
  if (const int result = take(event, *request->link); result != 0) return result;
  if (const int result = request->link->build(settings_or_default(cfg)); result != 0) return result;
  log(RPMA_LOG_LEVEL_NOTICE, "a connection request is there");
  *req_ptr = request.release();
  return 0;
}

}  // extern "C"
