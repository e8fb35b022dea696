// SPDX-License-Identifier: MIT
#include "device/connectx/prm/qp_context.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>
#include <string>

#include "engine/status.h"
#include "engine/transitions.h"

namespace verbatim::prm {

namespace {

using hw::QpState;
using hw::QpType;

constexpr uint32_t kOptRights = kOptRemoteRead | kOptRemoteAtomic | kOptRemoteWrite;

/// A transition: where it begins and leads, and which optional fields become mandatory by it.
struct Step {
  uint16_t opcode;
  std::optional<QpState> from;  ///< any, if none is said
  QpState to;
  uint32_t mandatory;  ///< QpMask, for the reliable service; others take their part of it
};

constexpr uint32_t kToInit =
    engine::kQpPkeyIndex | engine::kQpPort | engine::kQpAccessFlags | engine::kQpQkey;
constexpr uint32_t kToRtr = engine::kQpAv | engine::kQpPathMtu | engine::kQpDestQpn | engine::kQpRqPsn |
                            engine::kQpMaxDestRdAtomic | engine::kQpMinRnrTimer;
constexpr uint32_t kToRts = engine::kQpTimeout | engine::kQpRetryCnt | engine::kQpRnrRetry |
                            engine::kQpSqPsn | engine::kQpMaxQpRdAtomic;

constexpr Step kSteps[] = {
    {Rst2initQp::kOpcode, QpState::kReset, QpState::kInit, kToInit},
    {Init2initQp::kOpcode, QpState::kInit, QpState::kInit, 0},
    {Init2rtrQp::kOpcode, QpState::kInit, QpState::kRtr, kToRtr},
    {Rtr2rtsQp::kOpcode, QpState::kRtr, QpState::kRts, kToRts},
    {Rts2rtsQp::kOpcode, QpState::kRts, QpState::kRts, 0},
    {Sqerr2rtsQp::kOpcode, QpState::kSqe, QpState::kRts, 0},
    {Sqd2rtsQp::kOpcode, QpState::kSqd, QpState::kRts, 0},
    {Qp2err::kOpcode, {}, QpState::kError, 0},
    {Qp2rst::kOpcode, {}, QpState::kReset, 0},
};

/// Which attributes a service has at all.
uint32_t attributes_of(QpType type) {
  constexpr uint32_t kDatagram = engine::kQpPkeyIndex | engine::kQpPort | engine::kQpQkey | engine::kQpSqPsn;
  constexpr uint32_t kUnreliable = engine::kQpPkeyIndex | engine::kQpPort | engine::kQpAccessFlags |
                                   engine::kQpAv | engine::kQpPathMtu | engine::kQpDestQpn |
                                   engine::kQpRqPsn | engine::kQpSqPsn | engine::kQpPathMigState;
  constexpr uint32_t kInitiator = engine::kQpPkeyIndex | engine::kQpPort | engine::kQpPathMtu |
                                  engine::kQpTimeout | engine::kQpRetryCnt | engine::kQpRnrRetry |
                                  engine::kQpSqPsn | engine::kQpMaxQpRdAtomic;
  if (type == QpType::kDci) return kInitiator;
  if (type == QpType::kUd) return kDatagram;
  if (type == QpType::kUc) return kUnreliable;
  return ~static_cast<uint32_t>(engine::kQpQkey);
}

struct OptionalAttribute {
  uint32_t named_by;  ///< QpOptional
  uint32_t attribute;
};
constexpr OptionalAttribute kOptional[] = {
    {kOptRights, engine::kQpAccessFlags},
    {kOptPkeyIndex, engine::kQpPkeyIndex},
    {kOptQkey, engine::kQpQkey},
    {kOptRnrTimeout, engine::kQpMinRnrTimer},
    {kOptPrimaryPath, engine::kQpAv},
    {kOptInitiatorDepth, engine::kQpMaxQpRdAtomic},
    {kOptResponderDepth, engine::kQpMaxDestRdAtomic},
    {kOptMigration, engine::kQpPathMigState},
    {kOptRetryCount, engine::kQpRetryCnt},
    {kOptRnrRetry, engine::kQpRnrRetry},
    {kOptAckTimeout, engine::kQpTimeout},
    {kOptPort, engine::kQpPort},
};

struct Right {
  uint32_t named_by;
  Field<Qpc, 1> field;
  uint32_t access;
};
constexpr Right kRights[] = {
    {kOptRemoteRead, Qpc::rre, engine::kRemoteRead},
    {kOptRemoteWrite, Qpc::rwe, engine::kRemoteWrite},
    {kOptRemoteAtomic, Qpc::rae, engine::kRemoteAtomic},
};

uint32_t rights(View<Qpc> context, uint32_t named, uint32_t access) {
  for (const Right& right : kRights)
    if (right.named_by & named)
      access = context[right.field] ? access | right.access : access & ~right.access;
  return access;
}

constexpr uint32_t kMtuMin = 256;
constexpr uint32_t kMtuCodes = 5;

uint8_t port_of(View<Ads> path) {
  const auto port = static_cast<uint8_t>(path[Ads::vhca_port_num]);
  return port ? port : 1;  // programs for devices of one port leave it out
}

hw::AddressAttributes decode_path(View<Ads> path, bool infiniband) {
  hw::AddressAttributes address;
  for (size_t i = 0; i < address.dgid.bytes.size(); i++)
    address.dgid.bytes[i] = static_cast<uint8_t>(path.at(Ads::rgid_rip, i));
  address.flow_label = path[Ads::flow_label];
  address.sgid_index = static_cast<uint8_t>(path[Ads::src_addr_index]);
  address.hop_limit = static_cast<uint8_t>(path[Ads::hop_limit]);
  const uint32_t tclass = path[Ads::tclass], from_dscp = path[Ads::dscp] << 2 | path[Ads::ecn];
  address.traffic_class = static_cast<uint8_t>(tclass ? tclass : from_dscp);
  address.service_level = static_cast<uint8_t>(infiniband ? path[Ads::sl] : path[Ads::eth_prio]);
  address.source_path_bits = static_cast<uint8_t>(path[Ads::mlid]);
  address.static_rate = static_cast<uint8_t>(path[Ads::stat_rate]);
  address.port = port_of(path);
  address.dlid = static_cast<uint16_t>(path[Ads::rlid]);
  address.is_global = !infiniband || path[Ads::grh];
  return address;
}

void encode_path(const hw::QpAttributes& attributes, bool infiniband, Writer<Ads> path) {
  const hw::AddressAttributes& address = attributes.path;
  for (size_t i = 0; i < address.dgid.bytes.size(); i++) path.set(Ads::rgid_rip, i, address.dgid.bytes[i]);
  path.set(Ads::grh, address.is_global);
  path.set(Ads::flow_label, address.flow_label);
  path.set(Ads::src_addr_index, address.sgid_index);
  path.set(Ads::hop_limit, address.hop_limit);
  path.set(Ads::tclass, address.traffic_class);
  path.set(Ads::dscp, address.traffic_class >> 2);
  path.set(Ads::ecn, address.traffic_class);
  if (infiniband)
    path.set(Ads::sl, address.service_level);
  else
    path.set(Ads::eth_prio, address.service_level);
  path.set(Ads::mlid, address.source_path_bits);
  path.set(Ads::stat_rate, address.static_rate);
  path.set(Ads::rlid, address.dlid);
  path.set(Ads::vhca_port_num, attributes.port);
  path.set(Ads::pkey_index, attributes.pkey_index);
  path.set(Ads::ack_timeout, attributes.timeout);
}

uint32_t log2_ceil(uint32_t n) { return n > 1 ? static_cast<uint32_t>(std::bit_width(n - 1)) : 0; }

/// All attributes that a context holds; the mask says which of them count.
Expected<hw::QpAttributes> decode_attributes(View<Qpc> context, uint32_t mask, bool infiniband) {
  const auto path = context[Qpc::primary_address_path];
  hw::QpAttributes a;
  const uint32_t mtu = context[Qpc::mtu];
  if ((mask & engine::kQpPathMtu) && (mtu == 0 || mtu > kMtuCodes))
    return Error{EINVAL, "the context's path MTU has code " + std::to_string(mtu) + ", not 1 to 5"};
  a.path_mtu = mtu == 0 ? 0 : kMtuMin << (mtu - 1);
  a.path_mig_state = static_cast<uint8_t>(context[Qpc::pm_state]);
  a.qkey = context[Qpc::q_key];
  a.rq_psn = context[Qpc::next_rcv_psn];
  a.sq_psn = context[Qpc::next_send_psn];
  a.dest_qpn = context[Qpc::remote_qpn];
  a.path = decode_path(path, infiniband);
  a.pkey_index = static_cast<uint16_t>(path[Ads::pkey_index]);
  a.max_rd_atomic = static_cast<uint8_t>(1u << context[Qpc::log_sra_max]);
  a.max_dest_rd_atomic = static_cast<uint8_t>(1u << context[Qpc::log_rra_max]);
  a.min_rnr_timer = static_cast<uint8_t>(context[Qpc::min_rnr_nak]);
  a.port = port_of(path);
  a.timeout = static_cast<uint8_t>(path[Ads::ack_timeout]);
  a.retry_count = static_cast<uint8_t>(context[Qpc::retry_count]);
  a.rnr_retry = static_cast<uint8_t>(context[Qpc::rnr_retry]);
  return a;
}

struct StateCode {
  QpState state;
  prm::QpState code;
};
constexpr StateCode kStates[] = {
    {QpState::kReset, prm::QpState::kRst}, {QpState::kInit, prm::QpState::kInit},
    {QpState::kRtr, prm::QpState::kRtr},   {QpState::kRts, prm::QpState::kRts},
    {QpState::kSqd, prm::QpState::kSqd},   {QpState::kSqe, prm::QpState::kSqer},
    {QpState::kError, prm::QpState::kErr},
};

}  // namespace

Expected<Transition> decode_transition(uint16_t opcode, hw::QpType type, View<Qpc> context,
                                       uint32_t opt_param_mask, const hw::QpAttributes& now,
                                       bool infiniband) {
  const auto* step = std::ranges::find(kSteps, opcode, &Step::opcode);
  if (step == std::end(kSteps)) return Error{EINVAL, "the command is no transition of a queue pair"};
  if (step->from && *step->from != now.state)
    return Error{EBUSY, std::string("the queue pair is in ") + engine::state_name(now.state) + ", not in " +
                            engine::state_name(*step->from)};
  uint32_t mask = step->mandatory;
  for (const OptionalAttribute& optional : kOptional)
    if (opt_param_mask & optional.named_by) mask |= optional.attribute;
  mask = (mask & attributes_of(type)) | engine::kQpState;
  Expected<hw::QpAttributes> attributes = decode_attributes(context, mask, infiniband);
  if (!attributes) return attributes.error();
  attributes->state = step->to;
  const bool fresh = step->mandatory & engine::kQpAccessFlags;
  attributes->access = rights(context, fresh ? kOptRights : opt_param_mask, fresh ? 0 : now.access);
  return Transition{*attributes, mask};
}

void encode_attributes(hw::QpType type, const hw::QpAttributes& a, bool infiniband, Writer<Qpc> context) {
  context.set(Qpc::state, std::ranges::find(kStates, a.state, &StateCode::state)->code);
  context.set(Qpc::st, type == QpType::kUd                                       ? QpService::kUd
                       : type == QpType::kUc                                     ? QpService::kUc
                       : type == QpType::kDci                                    ? QpService::kDci
                       : type == QpType::kXrcSend || type == QpType::kXrcReceive ? QpService::kXrc
                                                                                 : QpService::kRc);
  context.set(Qpc::pm_state, a.path_mig_state);
  context.set(Qpc::mtu,
              a.path_mtu < kMtuMin ? 0 : static_cast<uint32_t>(std::bit_width(a.path_mtu / kMtuMin)));
  context.set(Qpc::remote_qpn, a.dest_qpn);
  context.set(Qpc::q_key, a.qkey);
  context.set(Qpc::next_rcv_psn, a.rq_psn);
  context.set(Qpc::next_send_psn, a.sq_psn);
  context.set(Qpc::log_sra_max, log2_ceil(a.max_rd_atomic));
  context.set(Qpc::log_rra_max, log2_ceil(a.max_dest_rd_atomic));
  context.set(Qpc::min_rnr_nak, a.min_rnr_timer);
  context.set(Qpc::retry_count, a.retry_count);
  context.set(Qpc::rnr_retry, a.rnr_retry);
  for (const Right& right : kRights) context.set(right.field, (a.access & right.access) != 0);
  encode_path(a, infiniband, context[Qpc::primary_address_path]);
}

}  // namespace verbatim::prm
