// SPDX-License-Identifier: MIT
// The states of queue pairs that the library moves, and their options (ECE).
#include "lib/rdmacm/transitions.h"

#include "agent/cm/identifier.h"
#include "lib/rdmacm/convert.h"
#include "lib/rdmacm/result.h"

namespace verbatim::rdmacm {
namespace {

int move(ibv_qp* qp, ibv_qp_attr& attributes, int mask) {
  return settle(ibv_modify_qp(qp, &attributes, mask));
}

int move(ibv_qp* qp, ibv_qp_state state, int more = 0) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  return move(qp, attributes, IBV_QP_STATE | more);
}

/// Options of a device that has none are all right.
int settle_ece(int error) { return error == EOPNOTSUPP ? 0 : settle(error); }

/// The attributes of a connection out of what the manager has told already. False: it has to be asked. It
/// alone chooses the Q_Key of datagrams, and says why there are no attributes.
bool remembered(const Id& id, uint32_t state, agent::cm::QpAttributes& to) {
  agent::cm::Testament testament;
  agent::cm::Will will;
  if (!recall(id.number, testament) || !agent::cm::read_testament(testament, will) || will.id.is_datagram())
    return false;
  const Expected<agent::cm::QpAttributes> known =
      agent::cm::qp_attributes(will.id, will.id.comm_id != 0 ? &will.connection : nullptr, state);
  if (known) to = *known;
  return known.ok();
}

int to_init(Id& id, ibv_qp* qp) {
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_INIT;
  if (rdma_init_qp_attr(&id.base, &attributes, &mask) != 0) return -1;
  return move(qp, attributes, mask);
}

}  // namespace

int make_ready(Id& id, ibv_qp* qp) {
  if (to_init(id, qp) != 0) return -1;
  if (id.base.qp_type != IBV_QPT_UD) return 0;
  if (move(qp, IBV_QPS_RTR) != 0) return -1;
  return move(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN);
}

int move_to_connected(Id& id, uint8_t responder_resources, uint8_t initiator_depth) {
  ibv_qp* const qp = id.base.qp;
  if (qp == nullptr) return 0;
  // Once more to INIT: by now the port's attributes are the connection's.
  if (to_init(id, qp) != 0) return -1;
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  if (rdma_init_qp_attr(&id.base, &attributes, &mask) != 0) return -1;
  if (responder_resources != RDMA_MAX_RESP_RES) attributes.max_dest_rd_atomic = responder_resources;
  if (move(qp, attributes, mask) != 0) return -1;
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  if (rdma_init_qp_attr(&id.base, &attributes, &mask) != 0) return -1;
  if (initiator_depth != RDMA_MAX_INIT_DEPTH) attributes.max_rd_atomic = initiator_depth;
  return move(qp, attributes, mask);
}

void move_to_error(Id& id) {
  if (id.base.qp != nullptr) move(id.base.qp, IBV_QPS_ERR);
}

int establish(Id& id) {
  Request request = request_for(id, Do::kEstablish);
  Answer answer{};
  return ask(request, answer);
}

int finish_connecting(Id& id, const agent::cm::Ece& remote) {
  ibv_qp* const qp = id.base.qp;
  // A peer that knows no options leaves none; one of another vendor cannot have answered ours.
  ibv_ece agreed{remote.vendor_id, remote.options, 0};
  if (remote.vendor_id == 0) agreed = {id.local_ece.vendor_id, 0, 0};
  int result =
      agreed.vendor_id == id.local_ece.vendor_id ? settle_ece(ibv_set_ece(qp, &agreed)) : fail(EINVAL);
  id.remote_ece.vendor_id = remote.vendor_id;
  if (result == 0) result = move_to_connected(id, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH);
  if (result == 0) result = establish(id);
  if (result == 0) result = note_ece(id, qp);
  if (result == 0) return 0;
  const int error = errno;
  move_to_error(id);
  return fail(error);
}

int agree_on_ece(Id& id, ibv_qp* qp) {
  ibv_ece offered{};
  if (settle_ece(ibv_query_ece(qp, &offered)) != 0) return -1;
  id.local_ece = offered;
  if (id.remote_ece.vendor_id == 0) return 0;
  const bool same_vendor = id.remote_ece.vendor_id == offered.vendor_id;
  ibv_ece agreed{offered.vendor_id, same_vendor ? id.remote_ece.options : 0, 0};
  return settle_ece(ibv_set_ece(qp, &agreed));
}

int note_ece(Id& id, ibv_qp* qp) {
  if (id.remote_ece.vendor_id == 0) return 0;
  ibv_ece agreed{};
  if (settle_ece(ibv_query_ece(qp, &agreed)) != 0) return -1;
  id.local_ece.options = agreed.options;
  return 0;
}

}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* qp_attr, int* qp_attr_mask) {
  Answer answer{};
  if (!remembered(*Id::of(id), qp_attr->qp_state, answer.qp)) {
    Request request = request_for(*Id::of(id), Do::kQpAttributes);
    request.qp_state = qp_attr->qp_state;
    if (ask(request, answer) != 0) return -1;
  }
  to_public(answer.qp, *qp_attr);
  *qp_attr_mask = static_cast<int>(answer.qp.mask);
  return 0;
}

int rdma_establish(rdma_cm_id* id) { return id->qp != nullptr ? fail(EINVAL) : establish(*Id::of(id)); }

int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || id->qp != nullptr || ece == nullptr || ece->vendor_id == 0 || ece->comp_mask != 0)
    return fail(EINVAL);
  Id::of(id)->local_ece = {ece->vendor_id, ece->options, 0};
  return 0;
}

int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || id->qp != nullptr || ece == nullptr) return fail(EINVAL);
  const ibv_ece& remote = Id::of(id)->remote_ece;
  *ece = {remote.vendor_id, remote.options, 0};
  return 0;
}

}  // extern "C"
