// SPDX-License-Identifier: MIT
// Endpoints: ids without channel made in one go from a resolved name.
#include "lib/rdmacm/id.h"
#include "lib/rdmacm/result.h"

namespace verbatim::rdmacm {
namespace {

constexpr int kResolveMs = 2000;

int become_passive(Id& id, const rdma_addrinfo& info, ibv_pd* pd, const ibv_qp_init_attr* queues) {
  if (rdma_bind_addr(&id.base, info.ai_src_addr) != 0) return -1;
  if (pd != nullptr) id.base.pd = pd;
  if (queues != nullptr) {
    id.request_queues = *queues;
    id.request_queues->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
  }
  return 0;
}

int find_way(Id& id, const rdma_addrinfo& info) {
  if (rdma_resolve_addr(&id.base, info.ai_src_addr, info.ai_dst_addr, kResolveMs) != 0) return -1;
  if (info.ai_route_len == 0) return rdma_resolve_route(&id.base, kResolveMs);
  if (rdma_set_option(&id.base, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, info.ai_route, info.ai_route_len) != 0)
    return -1;
  return complete(id);
}

int become_active(Id& id, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* queues) {
  if (find_way(id, info) != 0) return -1;
  if (queues != nullptr) {
    queues->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
    if (rdma_create_qp(&id.base, pd, queues) != 0) return -1;
  }
  const auto* data = static_cast<const uint8_t*>(info.ai_connect);
  if (info.ai_connect_len > 0) id.connect_data.assign(data, data + info.ai_connect_len);
  return 0;
}

/// What a request at a listening id asks for, as far as the library sees to it.
int take_request(Id& listener, const rdma_cm_event& event) {
  if (event.event == RDMA_CM_EVENT_REJECTED) return fail(ECONNREFUSED);
  if (event.status != 0) return fail(-event.status);
  if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST) return fail(EINVAL);
  if (!listener.request_queues.has_value()) return 0;
  ibv_qp_init_attr queues = *listener.request_queues;
  return rdma_create_qp(event.id, listener.base.pd, &queues);
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* res, ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) {
  if (id == nullptr || res == nullptr) return fail(EINVAL);
  rdma_cm_id* made = nullptr;
  const auto ps = static_cast<rdma_port_space>(res->ai_port_space);
  if (create_id(nullptr, &made, nullptr, ps, static_cast<ibv_qp_type>(res->ai_qp_type)) != 0) return -1;
  const bool passive = (res->ai_flags & RAI_PASSIVE) != 0;
  const int result = passive ? become_passive(*Id::of(made), *res, pd, qp_init_attr)
                             : become_active(*Id::of(made), *res, pd, qp_init_attr);
  if (result != 0) {
    const int error = errno;
    rdma_destroy_ep(made);
    return fail(error);
  }
  *id = made;
  return 0;
}

void rdma_destroy_ep(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  if (id->srq != nullptr) rdma_destroy_srq(id);
  rdma_destroy_id(id);
}

int rdma_get_request(rdma_cm_id* listen, rdma_cm_id** id) {
  Id& listener = *Id::of(listen);
  if (!listener.waits || id == nullptr) return fail(EINVAL);
  drop_event(listener);
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(listen->channel, &event) != 0) return -1;
  if (take_request(listener, *event) != 0) {
    listen->event = event;
    return -1;
  }
  *id = event->id;
  (*id)->event = event;
  return 0;
}

}  // extern "C"
