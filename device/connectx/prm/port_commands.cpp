// SPDX-License-Identifier: MIT
// The one port and what is reached through it. Its state can only be read: an Ethernet port follows the
// host's interfaces.
#include <algorithm>
#include <array>
#include <optional>

#include "abi/prm/ports.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"

namespace verbatim::prm {

namespace {

constexpr uint32_t kLinkUp = 5, kLinkPolling = 2;  ///< PortPhysicalState of PortInfo
constexpr uint32_t kActive = 4, kDown = 1;         ///< PortState of PortInfo
constexpr uint32_t kWholeTable = 0xffff;

/// The MAC address in a link-local GID made from one.
std::optional<uint64_t> mac_in(const Gid& gid) {
  const auto& b = gid.bytes;
  if (b[0] != 0xfe || b[1] != 0x80 || b[11] != 0xff || b[12] != 0xfe) return std::nullopt;
  uint64_t mac = b[8] ^ 2u;
  for (const size_t i : {9, 10, 13, 14, 15}) mac = mac << 8 | b[i];
  return mac;
}

uint64_t mac_of_interface(CommandUnit& unit, uint32_t interface_index) {
  const uint32_t entries = unit.port().gid_entries;
  for (uint32_t i = 0; i < entries; i++) {
    const hw::GidEntry entry = unit.gid(i);
    if (entry.interface_index != interface_index) continue;
    if (const std::optional<uint64_t> mac = mac_in(entry.gid)) return *mac;
  }
  return 0;
}

/// Every command about a virtual port can name another than the caller's own.
template <class Spec>
bool other_port(const Command<Spec>& c) {
  return c.in[Spec::In::other_vport] || c.in[Spec::In::vport_number] != 0;
}

Result refuse_other_port() {
  return refuse(Status::kBadParamErr, "the device has no virtual port but the caller's own");
}

Result query_vport_state(Command<QueryVportState>& c) {
  if (other_port(c)) return refuse_other_port();
  c.out.set(QueryVportStateOut::admin_state, 1);
  c.out.set(QueryVportStateOut::state, c.unit.port().active);
  return {};
}

Result refuse_infiniband() { return refuse(Status::kBadParamErr, "the port is InfiniBand, not Ethernet"); }

Result query_nic_vport_context(Command<QueryNicVportContext>& c) {
  if (other_port(c)) return refuse_other_port();
  if (c.unit.port().is_infiniband()) return refuse_infiniband();
  const auto context = c.out[QueryNicVportContextOut::nic_vport_context];
  const uint64_t guid = c.unit.limits().node_guid;
  const hw::GidEntry first = c.unit.gid(0);
  context.set(NicVportContext::roce_en, true);
  context.set(NicVportContext::mtu, first.mtu);
  context.set(NicVportContext::system_image_guid, guid);
  context.set(NicVportContext::node_guid, guid);
  context.set(NicVportContext::port_guid, guid);
  const uint64_t mac = mac_of_interface(c.unit, first.interface_index);
  context[NicVportContext::permanent_address].set(MacAddressLayout::mac_addr_47_32, mac >> 32);
  context[NicVportContext::permanent_address].set(MacAddressLayout::mac_addr_31_0, mac);
  return {};
}

Result query_roce_address(Command<QueryRoceAddress>& c) {
  constexpr uint32_t kIpv6 = 1, kVersion2 = 2;
  if (c.unit.port().is_infiniband()) return refuse_infiniband();
  const uint32_t index = c.in[QueryRoceAddressIn::roce_address_index];
  if (index >= c.unit.port().gid_entries)
    return refuse(Status::kBadParamErr, "the GID table has no entry " + std::to_string(index));
  const hw::GidEntry entry = c.unit.gid(index);
  if (entry.gid.is_zero()) return {};
  const auto address = c.out[QueryRoceAddressOut::roce_address];
  const bool ipv4 = entry.gid.is_ipv4_mapped();
  for (size_t i = ipv4 ? 12 : 0; i < 16; i++)
    address.set(RoceAddrLayout::source_l3_address, i, entry.gid.bytes[i]);
  const uint64_t mac = mac_of_interface(c.unit, entry.interface_index);
  address.set(RoceAddrLayout::source_mac_47_32, mac >> 32);
  address.set(RoceAddrLayout::source_mac_31_0, mac);
  address.set(RoceAddrLayout::roce_l3_type, ipv4 ? 0 : kIpv6);
  address.set(RoceAddrLayout::roce_version, entry.type == GidType::kRoceV2 ? kVersion2 : 0);
  return {};
}

/// One port does not make a link aggregate.
/// Both ports are up, so that each carries what is meant for it.
Result query_lag(Command<QueryLag>& c) {
  if (c.unit.limits().lag_ports <= 1) return {};
  const auto lag = c.out[QueryLagOut::ctx];
  lag.set(Lagc::lag_state, 1);
  lag.set(Lagc::tx_remap_affinity_1, 1);
  lag.set(Lagc::tx_remap_affinity_2, 2);
  return {};
}

Result query_hca_vport_context(Command<QueryHcaVportContext>& c) {
  if (other_port(c)) return refuse_other_port();
  const auto context = c.out[QueryHcaVportContextOut::hca_vport_context];
  const hw::PortState port = c.unit.port();
  const bool active = port.active;
  const uint64_t guid = c.unit.limits().node_guid;
  context.set(HcaVportContext::grh_required, !port.is_infiniband());
  context.set(HcaVportContext::has_smi, port.is_infiniband());
  context.set(HcaVportContext::lid, port.lid);
  context.set(HcaVportContext::sm_lid, port.sm_lid);
  context.set(HcaVportContext::port_physical_state, active ? kLinkUp : kLinkPolling);
  context.set(HcaVportContext::port_state, active ? kActive : kDown);
  context.set(HcaVportContext::vport_state, active ? kActive : kDown);
  context.set(HcaVportContext::system_image_guid, guid);
  context.set(HcaVportContext::node_guid, guid);
  context.set(HcaVportContext::port_guid, guid);
  return {};
}

Result query_hca_vport_gid(Command<QueryHcaVportGid>& c) {
  if (other_port(c)) return refuse_other_port();
  const uint32_t index = c.in[QueryHcaVportGidIn::gid_index], entries = c.unit.port().gid_entries;
  if (index != kWholeTable && index >= entries)
    return refuse(Status::kBadParamErr, "the GID table has no entry " + std::to_string(index));
  const uint32_t first = index == kWholeTable ? 0 : index;
  const uint32_t count = index == kWholeTable ? entries : 1;
  const auto room = static_cast<uint32_t>(c.out.size(QueryHcaVportGidOut::gid));
  c.out.set(QueryHcaVportGidOut::gids_num, std::min(count, room));
  for (uint32_t i = 0; i < std::min(count, room); i++) {
    const Gid gid = c.unit.gid(first + i).gid;
    for (size_t b = 0; b < gid.bytes.size(); b++)
      c.out.at(QueryHcaVportGidOut::gid, i).set(Array128Auto::array128_auto, b, gid.bytes[b]);
  }
  return {};
}

Result query_hca_vport_pkey(Command<QueryHcaVportPkey>& c) {
  if (other_port(c)) return refuse_other_port();
  const uint32_t index = c.in[QueryHcaVportPkeyIn::pkey_index];
  const uint32_t first = index == kWholeTable ? 0 : index;
  const uint32_t count = index == kWholeTable ? c.unit.limits().max_pkeys : 1;
  for (uint32_t i = 0; i < count; i++) {
    const Expected<uint16_t> pkey = c.unit.pkey(first + i);
    if (!pkey) return refuse(pkey.error());
    if (i < c.out.size(QueryHcaVportPkeyOut::pkey))
      c.out.at(QueryHcaVportPkeyOut::pkey, i).set(Pkey::pkey, *pkey);
  }
  return {};
}

}  // namespace

std::span<const Entry> port_commands() {
  static constexpr Entry kEntries[] = {
      entry<query_vport_state>(),       entry<query_nic_vport_context>(),
      entry<query_roce_address>(),      entry<query_lag>(),
      entry<query_hca_vport_context>(), entry<query_hca_vport_gid>(),
      entry<query_hca_vport_pkey>(),
  };
  return kEntries;
}

}  // namespace verbatim::prm
