// SPDX-License-Identifier: MIT
#include "agent/cm/identifier.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace verbatim::agent::cm {

namespace {

constexpr uint32_t kDatagramQkey = 0x01234567;

// A bool with other bits than the lowest must not be looked at.
constexpr size_t kBools[] = {offsetof(Connection, active),
                             offsetof(Connection, patient),
                             offsetof(Connection, srq),
                             offsetof(Connection, has_pending),
                             offsetof(Connection, flow_control),
                             offsetof(Connection, path) + offsetof(roce::cm::Path, subnet_local),
                             offsetof(Connection, path) + offsetof(roce::cm::Path, sap_supported)};

// What goes out again must be a message, and there where something has to.
bool repeats_well(const Connection& connection) {
  if (connection.has_pending) return roce::cm::Message::parse(connection.pending).ok();
  return connection.phase != Phase::kReqSent && connection.phase != Phase::kRepSent &&
         connection.phase != Phase::kDreqSent && connection.phase != Phase::kSidrReqSent &&
         connection.phase != Phase::kSidrAnswered;
}

bool is_sane(const Will& will) {
  const IdState& id = will.id;
  const Connection& connection = will.connection;
  return will.magic == Will::kMagic && will.untold_count <= Will::kUntoldMax && id.step <= kLastStep &&
         connection.phase <= kLastPhase && connection.timeout_ms >= 1 &&
         connection.timeout_ms <= kTimeoutMaxMs && connection.max_retries <= kRetriesMax &&
         connection.retries_left <= kRetriesMax && repeats_well(connection) &&
         (id.comm_id == 0 || id.comm_id == connection.local_comm_id);
}

bool knows_peer(const Connection& connection) {
  return connection.phase == Phase::kReqReceived || connection.phase == Phase::kRepSent ||
         connection.phase == Phase::kRepReceived || connection.phase == Phase::kEstablished;
}

void plain(const IdState& id, QpAttributes& to) {
  to.mask =
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (id.is_datagram() ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  to.port = 1;
  to.qkey = id.is_datagram() ? id.qkey : 0;
}

void for_init(const Connection& connection, QpAttributes& to) {
  to.access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (connection.responder_resources != 0)
    to.access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL |
                       IBV_ACCESS_FLUSH_PERSISTENT;
}

void for_receiving(const IdState& id, const Connection& connection, QpAttributes& to) {
  to.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  to.path = address_vector(id.path, id.gid_index);
  to.path_mtu = connection.path_mtu;
  to.dest_qp_num = connection.remote_qpn;
  to.rq_psn = id.first_psn;
  if (id.qp_type == IBV_QPT_UC || id.qp_type == IBV_QPT_XRC_SEND) return;
  to.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  to.max_dest_rd_atomic = connection.responder_resources;
}

void for_sending(const IdState& id, const Connection& connection, QpAttributes& to) {
  to.mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  to.sq_psn = connection.remote_psn;
  if (id.qp_type == IBV_QPT_UC) return;
  to.mask |= IBV_QP_TIMEOUT;
  to.timeout = id.ack_timeout_given ? id.ack_timeout : connection.ack_timeout;
  if (id.qp_type == IBV_QPT_XRC_RECV) return;
  to.mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  to.retry_count = connection.retry_count;
  to.rnr_retry = connection.rnr_retry_count;
  to.max_rd_atomic = connection.initiator_depth;
}

}  // namespace

Testament testament_of(const Will& will) {
  Testament testament{};
  testament.bytes = sizeof will;
  std::memcpy(testament.state, &will, sizeof will);
  return testament;
}

bool read_testament(const Testament& testament, Will& will) {
  if (testament.bytes != sizeof will) return false;
  uint8_t bytes[sizeof will];
  std::memcpy(bytes, testament.state, sizeof bytes);
  for (const size_t each : kBools) bytes[offsetof(Will, connection) + each] &= 1;
  std::memcpy(static_cast<void*>(&will), bytes, sizeof will);
  return is_sane(will);
}

Expected<uint32_t> set_qkey(IdState& id, uint32_t wanted) {
  if (id.qkey != 0) {
    if (wanted != 0 && wanted != id.qkey) return Error{EINVAL, "the id has another Q_Key already"};
  } else {
    id.qkey = wanted != 0 ? wanted : kDatagramQkey;
  }
  return id.qkey;
}

AddressVector address_vector(const PathRecord& path, uint32_t gid_index) {
  AddressVector to{};
  to.destination = path.destination;
  to.flow_label = path.flow_label;
  to.destination_lid = path.destination_lid;
  to.gid_index = static_cast<uint8_t>(gid_index);
  to.hop_limit = path.hop_limit;
  to.traffic_class = path.traffic_class;
  to.service_level = path.service_level;
  to.static_rate = path.rate;
  to.port = 1;
  return to;
}

Expected<QpAttributes> qp_attributes(const IdState& id, const Connection* connection, uint32_t state) {
  if (!id.bound) return Error{EINVAL, "the id is not bound to a device"};
  QpAttributes to{};
  to.state = state;
  if (id.is_datagram() || !connection) {
    plain(id, to);
    to.rq_psn = state == IBV_QPS_RTR ? id.first_psn : 0;
    return to;
  }
  const bool known = knows_peer(*connection);
  if (state == IBV_QPS_INIT && (known || connection->phase == Phase::kReqSent)) {
    plain(id, to);
    for_init(*connection, to);
  } else if (state == IBV_QPS_RTR && known) {
    for_receiving(id, *connection, to);
  } else if (state == IBV_QPS_RTS && known) {
    for_sending(id, *connection, to);
  } else {
    return Error{EINVAL, "the connection has no attributes for this state now"};
  }
  return to;
}

}  // namespace verbatim::agent::cm
