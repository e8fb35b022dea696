// SPDX-License-Identifier: MIT
// Ids: making, moving and destroying them.
#include "lib/rdmacm/id.h"

#include <cstdlib>

#include "lib/rdmacm/result.h"

namespace verbatim::rdmacm {
namespace {

bool is_known(rdma_port_space ps) {
  return ps == RDMA_PS_TCP || ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB || ps == RDMA_PS_IB;
}

/// Tells the agent of a new id and takes its number.
int introduce(Id& id) {
  Request request = request_for(id, Do::kCreateId);
  request.channel = Channel::of(id.base.channel)->number;
  request.port_space = static_cast<uint16_t>(id.base.ps);
  request.qp_type = static_cast<uint8_t>(id.base.qp_type);
  Answer answer{};
  if (ask(request, answer) != 0) return -1;
  id.number = answer.id;
  IdTable::of_process().add(id);
  return 0;
}

}  // namespace

Request request_for(const Id& id, Do what) {
  id.touched.store(true, std::memory_order_relaxed);
  Request request{};
  request.what = what;
  request.id = id.number;
  return request;
}

Id* make_id(Channel* channel, void* context, rdma_port_space ps, ibv_qp_type qp_type) {
  auto id = std::make_unique<Id>();
  if (channel == nullptr) {
    id->waits = true;
    channel = Channel::of(rdma_create_event_channel());
    if (channel == nullptr) return nullptr;
  }
  id->base.channel = &channel->base;
  id->base.context = context;
  id->base.ps = ps;
  id->base.qp_type = qp_type;
  return id.release();
}

void free_id(Id* id) {
  if (id->device != nullptr) Devices::of_process().release(id->device);
  if (id->waits) rdma_destroy_event_channel(id->base.channel);
  if (id->resolved != nullptr) rdma_freeaddrinfo(id->resolved);
  delete id;
}

int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space ps,
              ibv_qp_type qp_type) {
  if (id == nullptr || !is_known(ps)) return fail(EINVAL);
  Id* made = make_id(Channel::of(channel), context, ps, qp_type);
  if (made == nullptr) return -1;
  if (introduce(*made) != 0) {
    const int error = errno;
    free_id(made);
    return fail(error);
  }
  *id = &made->base;
  return 0;
}

void drop_event(Id& id) {
  if (id.base.event != nullptr) rdma_ack_cm_event(id.base.event);
  id.base.event = nullptr;
}

int complete(Id& id) {
  if (!id.waits) return 0;
  drop_event(id);
  if (rdma_get_cm_event(id.base.channel, &id.base.event) != 0) return -1;
  const rdma_cm_event& event = *id.base.event;
  if (event.status == 0) return 0;
  if (event.event == RDMA_CM_EVENT_REJECTED) return fail(ECONNREFUSED);
  return fail(std::abs(event.status));
}

}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space ps) {
  const bool datagrams = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
  return create_id(channel, id, context, ps, datagrams ? IBV_QPT_UD : IBV_QPT_RC);
}

int rdma_destroy_id(rdma_cm_id* public_id) {
  Id& id = *Id::of(public_id);
  IdTable& table = IdTable::of_process();
  table.remove(id);
  Request request = request_for(id, Do::kDestroyId);
  Answer answer{};
  // Without an agent there is nothing left to destroy but the id itself.
  if (ask(request, answer) == 0) take_off(*Channel::of(id.base.channel), answer.events_dropped);
  drop_event(id);
  table.wait_for_acknowledgements(id);
  free_id(&id);
  return 0;
}

int rdma_migrate_id(rdma_cm_id* public_id, rdma_event_channel* channel) {
  Id& id = *Id::of(public_id);
  if (id.waits && channel == nullptr) return fail(EINVAL);
  Channel* const former = Channel::of(id.base.channel);
  Channel* const next = Channel::of(channel != nullptr ? channel : rdma_create_event_channel());
  if (next == nullptr) return -1;
  Request request = request_for(id, Do::kMigrate);
  request.channel = next->number;
  Answer answer{};
  if (ask(request, answer) != 0) {
    const int error = errno;
    if (channel == nullptr) rdma_destroy_event_channel(&next->base);
    return fail(error);
  }
  take_off(*former, answer.events_dropped);
  const bool own_before = id.waits;
  if (own_before) drop_event(id);
  id.base.channel = &next->base;
  id.waits = channel == nullptr;
  IdTable::of_process().wait_for_acknowledgements(id);
  if (own_before) rdma_destroy_event_channel(&former->base);
  return 0;
}

}  // extern "C"
