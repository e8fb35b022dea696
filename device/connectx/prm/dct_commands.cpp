// SPDX-License-Identifier: MIT
// DC targets.
#include <bit>

#include "abi/prm/dynamic_connections.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"
#include "engine/status.h"

namespace verbatim::prm {

namespace {

constexpr uint32_t kMtuMin = 256, kMtuCodes = 5;

struct Right {
  Field<Dctc, 1> field;
  uint32_t access;
};
constexpr Right kRights[] = {
    {Dctc::rre, engine::kRemoteRead}, {Dctc::rwe, engine::kRemoteWrite}, {Dctc::rae, engine::kRemoteAtomic}};

/// Everything but the path MTU, whose code is checked already.
hw::QpAttributes attributes_of(View<Dctc> context, bool infiniband) {
  hw::QpAttributes a;
  a.path_mtu = kMtuMin << (context[Dctc::mtu] - 1);
  a.min_rnr_timer = static_cast<uint8_t>(context[Dctc::min_rnr_nak]);
  for (const Right& right : kRights)
    if (context[right.field]) a.access |= right.access;
  a.pkey_index = static_cast<uint16_t>(context[Dctc::pkey_index]);
  const uint32_t port = context[Dctc::port];
  a.port = static_cast<uint8_t>(port ? port : 1);  // programs for devices of one port leave it out
  a.path.port = a.port;
  a.path.is_global = !infiniband;
  a.path.sgid_index = static_cast<uint8_t>(context[Dctc::my_addr_index]);
  a.path.hop_limit = static_cast<uint8_t>(context[Dctc::hop_limit]);
  const uint32_t tclass = context[Dctc::tclass], from_dscp = context[Dctc::dscp] << 2 | context[Dctc::ecn];
  a.path.traffic_class = static_cast<uint8_t>(tclass ? tclass : from_dscp);
  a.path.flow_label = context[Dctc::flow_label];
  a.path.service_level = static_cast<uint8_t>(context[Dctc::eth_prio]);
  return a;
}

Result create_dct(Command<CreateDct>& c) {
  const auto context = c.in[CreateDctIn::dct_context_entry];
  const uint32_t mtu = context[Dctc::mtu];
  if (mtu == 0 || mtu > kMtuCodes)
    return refuse(Status::kBadParamErr, "the path MTU has code " + std::to_string(mtu) + ", not 1 to 5");
  if (context[Dctc::rlky]) return refuse(Status::kBadParamErr, "the reserved key is not for users");
  DctContext wanted;
  wanted.pd = context[Dctc::pd];
  wanted.cqn = context[Dctc::cqn];
  wanted.srqn = context[Dctc::srqn_xrqn];
  wanted.user_index = context[Dctc::user_index];
  wanted.access_key = context[Dctc::dc_access_key];
  wanted.attributes = attributes_of(context, c.unit.port().is_infiniband());
  const Expected<uint32_t> dctn = c.unit.create_dct(c.uid, wanted);
  if (!dctn) return refuse(dctn.error());
  c.out.set(CreateDctOut::dctn, *dctn);
  return {};
}

Result query_dct(Command<QueryDct>& c) {
  const Expected<DctFacts> facts = c.unit.query_dct(c.uid, c.in[QueryDctIn::dctn]);
  if (!facts) return refuse(facts.error());
  const DctContext& is = facts->context;
  const hw::QpAttributes& a = is.attributes;
  const auto context = c.out[QueryDctOut::dct_context_entry];
  context.set(Dctc::state, facts->state);
  context.set(Dctc::user_index, is.user_index);
  context.set(Dctc::cqn, is.cqn);
  context.set(Dctc::srqn_xrqn, is.srqn);
  context.set(Dctc::pd, is.pd);
  context.set(Dctc::dc_access_key, is.access_key);
  context.set(Dctc::dc_access_key_violation_count, facts->key_violations);
  for (const Right& right : kRights) context.set(right.field, (a.access & right.access) != 0);
  context.set(Dctc::min_rnr_nak, a.min_rnr_timer);
  context.set(Dctc::mtu,
              a.path_mtu < kMtuMin ? 0 : static_cast<uint32_t>(std::bit_width(a.path_mtu / kMtuMin)));
  context.set(Dctc::port, a.port);
  context.set(Dctc::pkey_index, a.pkey_index);
  context.set(Dctc::my_addr_index, a.path.sgid_index);
  context.set(Dctc::hop_limit, a.path.hop_limit);
  context.set(Dctc::tclass, a.path.traffic_class);
  context.set(Dctc::dscp, a.path.traffic_class >> 2);
  context.set(Dctc::ecn, a.path.traffic_class);
  context.set(Dctc::flow_label, a.path.flow_label);
  context.set(Dctc::eth_prio, a.path.service_level);
  return {};
}

Result drain_dct(Command<DrainDct>& c) { return result_of(c.unit.drain_dct(c.uid, c.in[DrainDctIn::dctn])); }
Result arm_dct(Command<ArmDctForKeyViolation>& c) {
  return result_of(c.unit.arm_dct(c.uid, c.in[ArmDctIn::dct_number]));
}
Result destroy_dct(Command<DestroyDct>& c) {
  return result_of(c.unit.destroy_dct(c.uid, c.in[DestroyDctIn::dctn]));
}

}  // namespace

std::span<const Entry> dct_commands() {
  static constexpr Entry kEntries[] = {
      entry<create_dct>(), entry<query_dct>(), entry<drain_dct>(), entry<arm_dct>(), entry<destroy_dct>(),
  };
  return kEntries;
}

}  // namespace verbatim::prm
