// SPDX-License-Identifier: MIT
// Events: what they change in an id before the program sees them.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "lib/rdmacm/convert.h"
#include "lib/rdmacm/event.h"
#include "lib/rdmacm/result.h"
#include "lib/rdmacm/transitions.h"

namespace verbatim::rdmacm {
namespace {

using agent::cm::Parameters;

void copy_connection(Event& event, const Parameters& from) {
  rdma_conn_param& to = event.base.param.conn;
  to.private_data_len = from.private_data_bytes;
  if (from.private_data_bytes > 0) to.private_data = event.private_data;
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.flow_control = from.flow_control;
  to.retry_count = from.retry_count;
  to.rnr_retry_count = from.rnr_retry_count;
  to.srq = from.srq;
  to.qp_num = from.qp_num;
}

void copy_datagram(Event& event, const agent::cm::Event& from) {
  rdma_ud_param& to = event.base.param.ud;
  to.private_data_len = from.parameters.private_data_bytes;
  if (to.private_data_len > 0) to.private_data = event.private_data;
  to.ah_attr = to_public(from.datagram);
  to.qp_num = from.parameters.qp_num;
  to.qkey = from.parameters.qkey;
}

void copy_parameters(Event& event, const Id& id, const agent::cm::Event& from) {
  std::copy_n(from.parameters.private_data, from.parameters.private_data_bytes, event.private_data);
  if (id.base.qp_type == IBV_QPT_UD)
    copy_datagram(event, from);
  else
    copy_connection(event, from.parameters);
}

/// What the program sees when something failed on this side. errno says what.
void turn_into(Event& event, rdma_cm_event_type type) {
  event.base.event = type;
  event.base.status = -errno;
}

void take_address(Event& event, Id& id, const Answer& answer) {
  if (adopt(id, answer.view) != 0) return turn_into(event, RDMA_CM_EVENT_ADDR_ERROR);
  if (id.base.verbs != nullptr) return;
  errno = ENODEV;
  turn_into(event, RDMA_CM_EVENT_ADDR_ERROR);
}

void take_route(Event& event, Id& id, const Answer& answer) {
  if (adopt(id, answer.view) != 0) turn_into(event, RDMA_CM_EVENT_ROUTE_ERROR);
}

void take_response(Event& event, Id& id, const agent::cm::Event& from) {
  copy_parameters(event, id, from);
  if (id.base.qp == nullptr) {
    id.remote_ece = {from.ece.vendor_id, from.ece.options, 0};
    return;
  }
  if (finish_connecting(id, from.ece) == 0) {
    event.base.event = RDMA_CM_EVENT_ESTABLISHED;
    return;
  }
  turn_into(event, RDMA_CM_EVENT_CONNECT_ERROR);
  id.broken = true;
}

/// The group's QP and memory of it come with the event.
void take_join(Event& event, Membership& membership, const agent::cm::Event& from) {
  copy_datagram(event, from);
  membership.group = event.base.param.ud.ah_attr.grh.dgid;
  membership.lid = event.base.param.ud.ah_attr.dlid;
  ibv_qp* qp = membership.id->base.qp;
  if (qp == nullptr || membership.join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER) return;
  const int error = ibv_attach_mcast(qp, &membership.group, membership.lid);
  membership.attached = error == 0;
  if (error == 0) return;
  errno = error;
  turn_into(event, RDMA_CM_EVENT_MULTICAST_ERROR);
}

/// A new id for a request. Null: it cannot be had, and the peer is told.
Id* make_child(const Id& listener, const Answer& answer) {
  const rdma_cm_id& parent = listener.base;
  Channel* channel = Channel::of(parent.channel);
  Id* child = make_id(channel, parent.context, parent.ps, parent.qp_type);
  if (child == nullptr) return nullptr;
  const agent::cm::Event& from = answer.event;
  child->number = from.id;
  child->initiator_depth = from.parameters.initiator_depth;
  child->responder_resources = from.parameters.responder_resources;
  child->remote_ece = {from.ece.vendor_id, from.ece.options, 0};
  IdTable::of_process().add(*child);
  const bool taken =
      adopt(*child, answer.view) == 0 && (!listener.waits || rdma_migrate_id(&child->base, nullptr) == 0);
  if (taken) return child;
  rdma_destroy_id(&child->base);
  return nullptr;
}

void refuse_child(uint32_t number) {
  Request request{};
  request.what = Do::kDestroyId;
  request.id = number;
  Answer answer{};
  ask(request, answer);
}

bool may_wait(const Channel& channel) { return (::fcntl(channel.base.fd, F_GETFL) & O_NONBLOCK) == 0; }

/// False: there is nothing to show.
bool take_request(Event& event, const Answer& answer) {
  Id* listener = IdTable::of_process().deliver(answer.event.listener);
  if (listener == nullptr) {
    refuse_child(answer.event.id);
    return false;
  }
  event.counted = listener;
  if (may_wait(*Channel::of(listener->base.channel))) listener->handover.await();
  Id* child = make_child(*listener, answer);
  if (child == nullptr) return false;
  event.base.listen_id = &listener->base;
  event.base.id = &child->base;
  copy_parameters(event, *child, answer.event);
  child->touched = false;
  listener->handover.note_shown(child->number);
  return true;
}

bool take_multicast(Event& event, const agent::cm::Event& from) {
  Membership* membership = IdTable::of_process().deliver_to_membership(from.context);
  if (membership == nullptr) return false;
  event.membership = membership;
  event.counted = membership->id;
  event.base.id = &membership->id->base;
  if (event.base.event == RDMA_CM_EVENT_MULTICAST_JOIN) take_join(event, *membership, from);
  event.base.param.ud.private_data = membership->context;
  return true;
}

/// An event that was written by rdma_write_cm_event or rdma_resolve_addrinfo.
void take_written(Event& event, Id& id, const agent::cm::Event& from) {
  if (event.base.event == RDMA_CM_EVENT_USER) {
    event.base.param.arg = from.argument;
    return;
  }
  event.base.event = static_cast<rdma_cm_event_type>(from.argument);
  if (event.base.event == RDMA_CM_EVENT_ADDRINFO_ERROR) id.resolving = false;
}

/// False: there is nothing to show.
bool take_other(Event& event, const Answer& answer) {
  const agent::cm::Event& from = answer.event;
  Id* id = IdTable::of_process().deliver(from.id);
  if (id == nullptr) return false;
  event.counted = id;
  event.base.id = &id->base;
  switch (event.base.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      take_address(event, *id, answer);
      return true;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      take_route(event, *id, answer);
      return true;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      take_response(event, *id, from);
      return true;
    case RDMA_CM_EVENT_REJECTED:
      move_to_error(*id);
      break;
    case RDMA_CM_EVENT_USER:
    case RDMA_CM_EVENT_INTERNAL:
      take_written(event, *id, from);
      return true;
    default:
      break;
  }
  copy_parameters(event, *id, from);
  const bool of_the_end =
      event.base.event == RDMA_CM_EVENT_REJECTED || event.base.event == RDMA_CM_EVENT_DISCONNECTED;
  return !(id->broken && of_the_end);
}

bool take(Event& event, const Answer& answer) {
  event.base.event = static_cast<rdma_cm_event_type>(answer.event.type);
  event.base.status = answer.event.status;
  switch (event.base.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return take_request(event, answer);
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
      return take_multicast(event, answer.event);
    default:
      return take_other(event, answer);
  }
}

/// Waits until an event is there, as the program has set the channel, and fetches it.
int fetch(const Channel& channel, Answer& answer) {
  // Not of the channel any more: another thread may destroy it meanwhile.
  const int fd = channel.base.fd;
  const uint32_t number = channel.number;
  for (;;) {
    uint64_t one;
    if (::read(fd, &one, sizeof one) != sizeof one) return -1;
    Request request{};
    request.what = Do::kGetEvent;
    request.channel = number;
    if (ask(request, answer) == 0) return 0;
    // What was waited for was taken back meanwhile.
    if (errno == EAGAIN) continue;
    if (errno != ENOENT || channel_is_open(number)) return -1;
    // So was the channel. In the kernel, too, a thread that waits for an event of it waits on.
    return ::pause();
  }
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (channel == nullptr || event == nullptr) return fail(EINVAL);
  for (;;) {
    Answer answer{};
    if (fetch(*Channel::of(channel), answer) != 0) return -1;
    auto taken = std::make_unique<Event>();
    if (take(*taken, answer)) {
      *event = &taken.release()->base;
      return 0;
    }
    if (taken->counted != nullptr) IdTable::of_process().acknowledge(*taken->counted, taken->membership);
  }
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return fail(EINVAL);
  const std::unique_ptr<Event> taken(Event::of(event));
  IdTable::of_process().acknowledge(*taken->counted, taken->membership);
  return 0;
}

int rdma_write_cm_event(rdma_cm_id* id, rdma_cm_event_type event, int status, uint64_t arg) {
  if (id == nullptr || event != RDMA_CM_EVENT_USER) return fail(EINVAL);
  return write_event(*Id::of(id), event, status, arg);
}

}  // extern "C"
