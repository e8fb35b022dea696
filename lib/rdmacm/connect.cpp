// SPDX-License-Identifier: MIT
// Making and ending connections.
#include <algorithm>

#include "lib/rdmacm/result.h"
#include "lib/rdmacm/transitions.h"

namespace verbatim::rdmacm {
namespace {

constexpr uint8_t kRetriesWithoutEnd = 7;
constexpr uint32_t kReasonVendorOptions = 35;  // of the connection manager's rejects

/// Whether the numbers of reads at a time are within the device's, where they are numbers.
bool fits(const Id& id, const rdma_conn_param* given) {
  if (id.base.ps != RDMA_PS_TCP) return true;
  if (given == nullptr) return id.base.qp != nullptr;
  const bool resources = given->responder_resources == RDMA_MAX_RESP_RES ||
                         given->responder_resources <= id.device->max_responder_resources;
  const bool depth = given->initiator_depth == RDMA_MAX_INIT_DEPTH ||
                     given->initiator_depth <= id.device->max_initiator_depth;
  return resources && depth;
}

/// The library's private data, then the program's. False: too much.
bool take_private_data(agent::cm::Parameters& to, const Id& id, const void* data, size_t bytes) {
  if (data == nullptr) bytes = 0;
  const size_t before = id.connect_data.size();
  if (before + bytes > UINT8_MAX) return false;
  std::copy(id.connect_data.begin(), id.connect_data.end(), to.private_data);
  if (bytes > 0) std::memcpy(to.private_data + before, data, bytes);
  to.private_data_bytes = static_cast<uint8_t>(before + bytes);
  return true;
}

/// False: too much private data.
bool take_parameters(agent::cm::Parameters& to, const Id& id, const rdma_conn_param* given) {
  to.valid = 1;
  to.retry_count = to.rnr_retry_count = kRetriesWithoutEnd;
  to.responder_resources = id.responder_resources;
  to.initiator_depth = id.initiator_depth;
  if (given != nullptr) {
    to.qp_num = given->qp_num;
    to.srq = given->srq;
    to.flow_control = given->flow_control;
    to.retry_count = given->retry_count;
    to.rnr_retry_count = given->rnr_retry_count;
  }
  if (const ibv_qp* qp = id.base.qp; qp != nullptr) {
    to.qp_num = qp->qp_num;
    to.srq = qp->srq != nullptr ? 1 : 0;
  }
  const void* data = given != nullptr ? given->private_data : nullptr;
  return take_private_data(to, id, data, given != nullptr ? given->private_data_len : 0);
}

/// What an acceptance has: the program's numbers, or the request's as far as the device goes.
void choose_depths(Id& id, const rdma_conn_param* given) {
  if (given != nullptr && given->initiator_depth != RDMA_MAX_INIT_DEPTH)
    id.initiator_depth = given->initiator_depth;
  else
    id.initiator_depth = std::min(id.initiator_depth, id.device->max_initiator_depth);
  if (given != nullptr && given->responder_resources != RDMA_MAX_RESP_RES)
    id.responder_resources = given->responder_resources;
  else
    id.responder_resources = std::min(id.responder_resources, id.device->max_responder_resources);
}

int ask_to_accept(Id& id, const rdma_conn_param* given) {
  Request request = request_for(id, Do::kAccept);
  if (!take_parameters(request.parameters, id, given)) return fail(EINVAL);
  request.ece = {id.remote_ece.vendor_id, id.local_ece.options};
  request.context = reinterpret_cast<uintptr_t>(&id);
  Answer answer{};
  return ask(request, answer);
}

int reject(Id& id, const void* data, uint8_t bytes, uint32_t reason) {
  Request request = request_for(id, Do::kReject);
  request.reason = reason;
  if (data != nullptr) {
    std::memcpy(request.parameters.private_data, data, bytes);
    request.parameters.private_data_bytes = bytes;
  }
  Answer answer{};
  return ask(request, answer);
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rdma_connect(rdma_cm_id* public_id, rdma_conn_param* conn_param) {
  Id& id = *Id::of(public_id);
  if (id.device == nullptr || !fits(id, conn_param)) return fail(EINVAL);
  id.initiator_depth = id.device->max_initiator_depth;
  id.responder_resources = id.device->max_responder_resources;
  choose_depths(id, conn_param);
  Request request = request_for(id, Do::kConnect);
  if (!take_parameters(request.parameters, id, conn_param)) return fail(EINVAL);
  request.ece = {id.local_ece.vendor_id, id.local_ece.options};
  Answer answer{};
  if (ask(request, answer) != 0) return -1;
  id.connect_data.clear();
  return complete(id);
}

int rdma_accept(rdma_cm_id* public_id, rdma_conn_param* conn_param) {
  Id& id = *Id::of(public_id);
  if (id.device == nullptr || (id.base.qp == nullptr && conn_param == nullptr) || !fits(id, conn_param))
    return fail(EINVAL);
  choose_depths(id, conn_param);
  const bool datagrams = id.base.qp_type == IBV_QPT_UD;
  if (!datagrams && move_to_connected(id, id.responder_resources, id.initiator_depth) != 0) return -1;
  if (ask_to_accept(id, conn_param) != 0) {
    const int error = errno;
    move_to_error(id);
    return fail(error);
  }
  if (!datagrams) return complete(id);
  if (id.waits) drop_event(id);
  return 0;
}

int rdma_reject(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
  return reject(*Id::of(id), private_data, private_data_len, 0);
}

int rdma_reject_ece(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
  return reject(*Id::of(id), private_data, private_data_len, kReasonVendorOptions);
}

int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  Request request = request_for(*Id::of(id), Do::kNotify);
  request.value = event;
  Answer answer{};
  return ask(request, answer);
}

int rdma_disconnect(rdma_cm_id* public_id) {
  Id& id = *Id::of(public_id);
  if (id.device == nullptr) return fail(EINVAL);
  move_to_error(id);
  Request request = request_for(id, Do::kDisconnect);
  Answer answer{};
  if (ask(request, answer) != 0) return -1;
  return complete(id);
}

}  // extern "C"
