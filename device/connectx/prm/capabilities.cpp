// SPDX-License-Identifier: MIT
// One line for each thing that works. What is missing here is not offered.
#include "device/connectx/prm/capabilities.h"

#include "abi/prm/scheduling.h"

#include <algorithm>
#include <bit>
#include <span>

#include "device/connectx/prm/event_types.h"
#include "device/connectx/prm/sizes.h"
#include "engine/memory_keys.h"

namespace verbatim::prm {

namespace {

constexpr uint32_t kInfiniband = 0, kEthernet = 1;
constexpr uint32_t kCqeVersion = 1;
constexpr uint32_t kLogPageMin = 12;
constexpr uint32_t kLogAtomicMax = 3;
constexpr uint32_t kUnit = 16;  ///< bytes of a segment of a work queue entry
constexpr uint32_t kBlock = 64;
constexpr uint32_t kRoceUdpPort = 4791;

uint32_t log2_floor(uint64_t n) { return n ? 63u - static_cast<uint32_t>(std::countl_zero(n)) : 0; }

/// Code of the largest of 8, 16, ..., 128 entries that the table has.
uint32_t gid_table_code(uint32_t entries) { return std::clamp(log2_floor(entries), 3u, 7u) - 3; }

/// Room for a control and a remote address segment and either the most elements or the most inline data.
uint32_t send_entry_bytes(const hw::Limits& limits) {
  const uint32_t payload = std::max(limits.max_sge * kUnit, limits.max_inline + 4);
  return (2 * kUnit + payload + kBlock - 1) / kBlock * kBlock;
}

void sizes(const hw::Limits& limits, Writer<CmdHcaCap> cap) {
  cap.set(CmdHcaCap::log_max_qp, log2_floor(limits.max_qp));
  cap.set(CmdHcaCap::log_max_qp_sz, log2_floor(limits.max_qp_wr));
  cap.set(CmdHcaCap::max_wqe_sz_sq, send_entry_bytes(limits));
  cap.set(CmdHcaCap::max_wqe_sz_rq, (limits.max_srq_sge + 1) * kUnit);
  cap.set(CmdHcaCap::log_max_srq, log2_floor(limits.max_srq));
  cap.set(CmdHcaCap::log_max_srq_sz, log2_floor(uint64_t{limits.max_srq_wr} + 1));
  cap.set(CmdHcaCap::log_max_cq, log2_floor(limits.max_cq));
  cap.set(CmdHcaCap::log_max_cq_sz, log2_floor(uint64_t{limits.max_cqe} + 1));
  cap.set(CmdHcaCap::log_max_eq, kLogEventQueuesMax);
  cap.set(CmdHcaCap::log_max_eq_sz, kLogEventQueueMax);
  cap.set(CmdHcaCap::log_max_rmp, kLogSharedReceivesMax);
  cap.set(CmdHcaCap::log_max_mkey, log2_floor(limits.max_mr));
  cap.set(CmdHcaCap::log_max_mrw_sz, log2_floor(limits.max_mr_bytes) + 1);
  cap.set(CmdHcaCap::log_max_pd, log2_floor(limits.max_pd));
  cap.set(CmdHcaCap::log_max_msg, log2_floor(limits.max_send_message_bytes));
  cap.set(CmdHcaCap::log_max_ra_req_qp, log2_floor(limits.max_qp_init_rd_atomic));
  cap.set(CmdHcaCap::log_max_ra_res_qp, log2_floor(limits.max_qp_rd_atomic));
  cap.set(CmdHcaCap::log_max_mcg, log2_floor(limits.max_mcast_grp));
  cap.set(CmdHcaCap::max_qp_mcg, limits.max_mcast_qp_attach);
  cap.set(CmdHcaCap::log_max_atomic_size_qp, kLogAtomicMax);
}

void tag_matching(const hw::Limits& limits, Writer<CmdHcaCap> cap) {
  cap.set(CmdHcaCap::tag_matching, true);
  cap.set(CmdHcaCap::log_tag_matching_list_sz, log2_floor(limits.max_tags + 1));
  cap.set(CmdHcaCap::log_max_xrq, log2_floor(limits.max_srq));
}

void dynamic_connections(const hw::Limits& limits, Writer<CmdHcaCap> cap) {
  constexpr uint32_t kLogConnectionsMax = 12;
  cap.set(CmdHcaCap::dct, true);
  cap.set(CmdHcaCap::log_max_dct_connections, kLogConnectionsMax);
  cap.set(CmdHcaCap::max_wqe_sz_sq_dc, send_entry_bytes(limits));
  cap.set(CmdHcaCap::log_max_ra_req_dc, log2_floor(limits.max_qp_init_rd_atomic));
  cap.set(CmdHcaCap::log_max_ra_res_dc, log2_floor(limits.max_qp_rd_atomic));
  cap.set(CmdHcaCap::log_max_atomic_size_dc, kLogAtomicMax);
  cap.set(CmdHcaCap::log_max_dci_stream_channels, limits.log_max_dci_streams);
  cap.set(CmdHcaCap::log_max_dci_errored_streams, limits.log_max_dci_errored_streams);
}

void memory_keys(Writer<CmdHcaCap> cap) {
  cap.set(CmdHcaCap::max_indirection, engine::kIndirectionMax);
  cap.set(CmdHcaCap::log_max_klm_list_size, kLogKlmListMax);
  cap.set(CmdHcaCap::fixed_buffer_size, true);
  cap.set(CmdHcaCap::umr_extended_translation_offset, true);
  cap.set(CmdHcaCap::umr_fence, UmrFence::kNone);
  cap.set(CmdHcaCap::umr_modify_entity_size_disabled, true);
  cap.set(CmdHcaCap::umr_ptr_rlky, true);
  cap.set(CmdHcaCap::dma_mmo_qp, true);
  cap.set(CmdHcaCap::dma_mmo_sq, true);
  cap.set(CmdHcaCap::log_dma_mmo_max_size, kLogCopyBytesMax);
}

/// Objects that are contexts with references to others.
void objects(Writer<CmdHcaCap> cap) {
  constexpr uint32_t kCounterSets = 255;
  cap.set(CmdHcaCap::log_max_transport_domain, kLogTransportDomainsMax);
  cap.set(CmdHcaCap::log_max_xrcd, kLogXrcdsMax);
  cap.set(CmdHcaCap::log_max_uctx, kLogUserContextsMax);
  cap.set(CmdHcaCap::log_max_umem, kLogUmemsMax);
  cap.set(CmdHcaCap::umem_uid_0, true);
  cap.set(CmdHcaCap::log_max_tir, kLogTransportInterfacesMax);
  cap.set(CmdHcaCap::log_max_tis, kLogTransportInterfacesMax);
  cap.set(CmdHcaCap::modify_tis, true);
  cap.set(CmdHcaCap::log_max_rqt, kLogReceiveTablesMax);
  cap.set(CmdHcaCap::log_max_rqt_size, kLogReceiveTableEntriesMax);
  cap.set(CmdHcaCap::max_qp_cnt, kCounterSets);
  cap.set(CmdHcaCap::modify_rq_counter_set_id, true);
  cap.set(CmdHcaCap::rts2rts_qp_counters_set_id, true);
  cap.set(CmdHcaCap::vport_counters, true);
  cap.set(CmdHcaCap::cc_query_allowed, true);
}

/// What is done with frames: checksums and tags, the sequence check, cutting large sends, looking into
/// tunnels when they arrive. A frame may lie wholly in what its queue entry names.
void ethernet_offloads(const hw::Limits& limits, Writer<PerProtocolNetworkingOffloadCaps> cap) {
  using Offloads = PerProtocolNetworkingOffloadCaps;
  constexpr uint32_t kInlineNotRequired = 2;
  cap.set(Offloads::csum_cap, true);
  cap.set(Offloads::vlan_cap, true);
  cap.set(Offloads::wqe_vlan_insert, true);
  cap.set(Offloads::max_lso_cap, limits.log_segmented_bytes_max);
  cap.set(Offloads::wqe_inline_mode, kInlineNotRequired);
  cap.set(Offloads::rss_ind_tbl_cap, kLogReceiveTableEntriesMax);
  cap.set(Offloads::scatter_fcs, true);
  cap.set(Offloads::tunnel_stateless_gre, true);
  cap.set(Offloads::tunnel_stateless_vxlan, true);
  cap.set(Offloads::tunnel_stateless_geneve_rx, true);
  cap.set(Offloads::tunnel_stateless_ip_over_ip_rx, true);
}

/// Queues without a queue pair.
void work_queues(Writer<CmdHcaCap> cap) {
  cap.set(CmdHcaCap::log_max_rq, kLogWorkQueuesMax);
  cap.set(CmdHcaCap::log_max_sq, kLogWorkQueuesMax);
  cap.set(CmdHcaCap::log_max_wq_sz, kLogWorkEntriesMax);
  cap.set(CmdHcaCap::basic_cyclic_rcv_wqe, true);
  cap.set(CmdHcaCap::log_min_stride_sz_rq, kLogRawStrideMin);
  cap.set(CmdHcaCap::log_max_stride_sz_rq, kLogRawStrideMax);
  cap.set(CmdHcaCap::log_min_stride_sz_sq, kLogSendBlock);
  cap.set(CmdHcaCap::log_max_stride_sz_sq, kLogSendBlock);
  cap.set(CmdHcaCap::striding_rq, true);
  cap.set(CmdHcaCap::ext_stride_num_range, true);
  cap.set(CmdHcaCap::rq_delay_drop, true);
}

/// Signatures of every kind on keys, and their errors as entries of completion queues.
void signatures(Writer<CmdHcaCap> cap) {
  cap.set(CmdHcaCap::sho, true);
  cap.set(CmdHcaCap::sigerr_domain_and_sig_type, true);
  cap.set(CmdHcaCap::sigerr_cqe, true);
  cap.set(CmdHcaCap::drain_sigerr, true);
  cap.set(CmdHcaCap::sig_crc32c, true);
  cap.set(CmdHcaCap::sig_crc64_xp10, true);
  cap.set(CmdHcaCap::sig_block_4048, true);
}

void encryption(Writer<CmdHcaCap> cap) {
  constexpr uint32_t kDekType = 12, kCryptoLoginType = 31;  // MLX5_OBJ_TYPE_
  cap.set(CmdHcaCap::crypto, true);
  cap.set(CmdHcaCap::aes_xts_multi_block_be_tweak, true);
  cap.set(CmdHcaCap::general_obj_types,
          cap[CmdHcaCap::general_obj_types] | uint64_t{1} << kDekType | uint64_t{1} << kCryptoLoginType);
}

void general(const DeviceFacts& facts, Writer<CmdHcaCap> cap) {
  sizes(facts.limits, cap);
  objects(cap);
  work_queues(cap);
  cap.set(CmdHcaCap::rc, true);
  cap.set(CmdHcaCap::uc, true);
  cap.set(CmdHcaCap::ud, true);
  cap.set(CmdHcaCap::cq_oi, true);
  cap.set(CmdHcaCap::cq_resize, true);
  cap.set(CmdHcaCap::cq_moderation, true);
  cap.set(CmdHcaCap::cqe_version, kCqeVersion);
  dynamic_connections(facts.limits, cap);
  if (facts.limits.max_tags != 0) tag_matching(facts.limits, cap);
  memory_keys(cap);
  // Groups of their own.
  cap.set(CmdHcaCap::atomic, true);
  cap.set(CmdHcaCap::roce, !facts.port.is_infiniband());
  cap.set(CmdHcaCap::compact_address_vector, facts.port.is_infiniband());
  cap.set(CmdHcaCap::eth_net_offloads, facts.limits.max_frame_bytes != 0);
  cap.set(CmdHcaCap::pg, true);
  cap.set(CmdHcaCap::hca_cap_2, true);
  if (facts.limits.log_max_scheduling_leaves != 0)
    cap.set(CmdHcaCap::general_obj_types, uint64_t{1} << CreateSchedElem::kMod);
  signatures(cap);
  encryption(cap);
  cap.set(CmdHcaCap::qos, facts.limits.pacing_entries != 0 || facts.limits.log_max_scheduling_leaves != 0);
  cap.set(CmdHcaCap::lag_master, facts.limits.lag_ports > 1);
  cap.set(CmdHcaCap::num_lag_ports, facts.limits.lag_ports);
  cap.set(CmdHcaCap::rts2rts_lag_tx_port_affinity, facts.limits.lag_ports > 1);
  cap.set(CmdHcaCap::rts2rts_qp_udp_sport, !facts.port.is_infiniband());
  cap.set(CmdHcaCap::qpc_extension, true);
  cap.set(CmdHcaCap::device_memory, facts.limits.dm[0].log_bytes != 0);
  cap.set(CmdHcaCap::event_cap, true);
  cap.set(CmdHcaCap::null_mkey, facts.keys.null_mkey != 0);
  cap.set(CmdHcaCap::dump_fill_mkey, facts.keys.dump_fill_mkey != 0);
  cap.set(CmdHcaCap::terminate_scatter_list_mkey, facts.keys.terminate_scatter_list != 0);
  cap.set(CmdHcaCap::repeated_mkey, facts.keys.repeated_mkey != 0);
  cap.set(CmdHcaCap::num_ports, 1);
  cap.set(CmdHcaCap::port_type, facts.port.is_infiniband() ? kInfiniband : kEthernet);
  cap.set(CmdHcaCap::gid_table_size, gid_table_code(facts.port.gid_entries));
  cap.set(CmdHcaCap::local_ca_ack_delay, facts.limits.local_ack_delay);
  cap.set(CmdHcaCap::device_frequency_khz, facts.limits.timestamp_khz);
  cap.set(CmdHcaCap::device_frequency_mhz, facts.limits.timestamp_khz / 1000);
  cap.set(CmdHcaCap::log_pg_sz, kLogPageMin);
  cap.set(CmdHcaCap::uar_4k, true);
  cap.set(CmdHcaCap::num_of_uars_per_page, 1);
}

/// Memory is never pinned: what a transport can do, it does on pages that are not there yet.
void on_demand_paging(Writer<OdpCap> cap) {
  using Service = OdpPerTransportServiceCap;
  for (const auto service : {cap[OdpCap::rc_odp_caps], cap[OdpCap::uc_odp_caps], cap[OdpCap::ud_odp_caps],
                             cap[OdpCap::dc_odp_caps]}) {
    service.set(Service::send, true);
    service.set(Service::receive, true);
    service.set(Service::srq_receive, true);
  }
  for (const auto service : {cap[OdpCap::rc_odp_caps], cap[OdpCap::uc_odp_caps], cap[OdpCap::dc_odp_caps]})
    service.set(Service::write, true);
  for (const auto service : {cap[OdpCap::rc_odp_caps], cap[OdpCap::dc_odp_caps]}) {
    service.set(Service::read, true);
    service.set(Service::atomic, true);
  }
}

void atomic(Writer<AtomicCaps> cap) {
  constexpr uint32_t kCompareSwap = 1, kFetchAdd = 2;
  cap.set(AtomicCaps::atomic_operations, kCompareSwap | kFetchAdd);
  cap.set(AtomicCaps::atomic_size_qp, 1u << kLogAtomicMax);
  cap.set(AtomicCaps::atomic_size_dc, 1u << kLogAtomicMax);
  // Answers come in the host's byte order.
  cap.set(AtomicCaps::supported_atomic_req_8B_endianness_mode_1, true);
  cap.set(AtomicCaps::atomic_req_8B_endianness_mode, 1);
}

void crypto(const CryptoFacts& facts, Writer<CryptoCaps> cap) {
  constexpr uint32_t kAesXts = 1;
  cap.set(CryptoCaps::wrapped_crypto_operational, facts.wrapped);
  cap.set(CryptoCaps::wrapped_import_method, facts.wrapped ? kAesXts : 0);
  cap.set(CryptoCaps::log_max_num_deks, facts.log_max_deks);
  cap.set(CryptoCaps::log_max_num_import_keks, facts.log_max_import_keks);
  cap.set(CryptoCaps::log_max_num_creds, facts.log_max_credentials);
  cap.set(CryptoCaps::num_nv_import_keks, facts.import_keks);
  cap.set(CryptoCaps::num_nv_credentials, facts.credentials);
}

void roce(const DeviceFacts& facts, Writer<RoceCap> cap) {
  constexpr uint32_t kVersion1 = 1, kVersion2 = 4, kIpv4AndIpv6 = 6;
  cap.set(RoceCap::roce_version, kVersion1 | kVersion2);
  cap.set(RoceCap::l3_type, kIpv4AndIpv6);
  cap.set(RoceCap::r_roce_dest_udp_port, kRoceUdpPort);
  cap.set(RoceCap::roce_address_table_size, facts.port.gid_entries);
}

void device_memory(const hw::Limits& limits, Writer<DeviceMemCap> cap) {
  constexpr uint32_t kLogAlignmentUnit = 6;
  const auto range = [&](hw::DmKind kind) { return limits.dm[static_cast<size_t>(kind)]; };
  const hw::DmRange memic = range(hw::DmKind::kMemic);
  if (memic.log_bytes == 0) return;
  cap.set(DeviceMemCap::memic, true);
  cap.set(DeviceMemCap::log_min_memic_alloc_size, memic.log_granularity);
  cap.set(DeviceMemCap::log_max_memic_addr_alignment, limits.log_dm_alignment_max - kLogAlignmentUnit);
  cap.set(DeviceMemCap::memic_bar_start_addr, memic.start);
  cap.set(DeviceMemCap::memic_bar_size, 1u << memic.log_bytes);
  cap.set(DeviceMemCap::max_memic_size, 1u << memic.log_bytes);
  cap.set(DeviceMemCap::memic_operations, limits.dm_operations);
  cap.set(DeviceMemCap::increment_size_sup, limits.dm_operation_sizes);
  cap.set(DeviceMemCap::test_and_set_size_sup, limits.dm_operation_sizes);
  // The device's own tables: memory that steering will find.
  cap.set(DeviceMemCap::log_sw_icm_alloc_granularity, range(hw::DmKind::kSteering).log_granularity);
  cap.set(DeviceMemCap::steering_sw_icm_start_address, range(hw::DmKind::kSteering).start);
  cap.set(DeviceMemCap::log_steering_sw_icm_size, range(hw::DmKind::kSteering).log_bytes);
  cap.set(DeviceMemCap::header_modify_sw_icm_start_address, range(hw::DmKind::kHeaderModify).start);
  cap.set(DeviceMemCap::log_header_modify_sw_icm_size, range(hw::DmKind::kHeaderModify).log_bytes);
  cap.set(DeviceMemCap::header_modify_pattern_sw_icm_start_address,
          range(hw::DmKind::kHeaderModifyPattern).start);
  cap.set(DeviceMemCap::log_header_modify_pattern_sw_icm_size,
          range(hw::DmKind::kHeaderModifyPattern).log_bytes);
  cap.set(DeviceMemCap::indirect_encap_sw_icm_start_address, range(hw::DmKind::kEncapsulation).start);
  cap.set(DeviceMemCap::log_indirect_encap_sw_icm_size, range(hw::DmKind::kEncapsulation).log_bytes);
}

void quality_of_service(const hw::Limits& limits, Writer<QosCap> cap) {
  constexpr uint32_t kNode = 1, kQueueGroup = 16, kDeficitRoundRobin = 1;
  if (limits.pacing_entries != 0) {
    cap.set(QosCap::packet_pacing, true);
    cap.set(QosCap::packet_pacing_uid, true);
    cap.set(QosCap::packet_pacing_min_rate, limits.pacing_min_kbps);
    cap.set(QosCap::packet_pacing_max_rate, limits.pacing_max_kbps);
    cap.set(QosCap::packet_pacing_rate_table_size, limits.pacing_entries + 1);
  }
  if (limits.log_max_scheduling_leaves != 0) {
    cap.set(QosCap::nic_qp_scheduling, true);
    cap.set(QosCap::nic_bw_share, true);
    cap.set(QosCap::nic_rate_limit, true);
    cap.set(QosCap::log_max_qos_nic_queue_group, limits.log_max_scheduling_leaves);
    cap.set(QosCap::nic_element_type, kNode | kQueueGroup);
    cap.set(QosCap::nic_tsar_type, kDeficitRoundRobin);
  }
}

/// A bit for each, as far as the first word goes: no event of the device has a number of 64 or more.
uint64_t bits_of(std::span<const Event> events) {
  uint64_t bits = 0;
  for (const Event event : events) bits |= uint64_t{1} << static_cast<uint32_t>(event);
  return bits;
}

/// What programs may subscribe to.
void events(Writer<DeviceEventCap> cap) {
  cap.set(DeviceEventCap::user_affiliated_events, 0, bits_of(kObjectEvents));
  cap.set(DeviceEventCap::user_unaffiliated_events, 0, bits_of(kDeviceEvents));
}

}  // namespace

bool write_capabilities(CapabilityGroup group, const DeviceFacts& facts, Writer<HcaCapUnion> out) {
  switch (group) {
    case CapabilityGroup::kGeneral:
      general(facts, out[HcaCapUnion::cmd_hca_cap]);
      return true;
    case CapabilityGroup::kEthernetOffloads:
      if (facts.limits.max_frame_bytes != 0)
        ethernet_offloads(facts.limits, out[HcaCapUnion::per_protocol_networking_offload_caps]);
      return true;
    case CapabilityGroup::kOnDemandPaging:
      on_demand_paging(out[HcaCapUnion::odp_cap]);
      return true;
    case CapabilityGroup::kAtomic:
      atomic(out[HcaCapUnion::atomic_caps]);
      return true;
    case CapabilityGroup::kRoce:
      if (!facts.port.is_infiniband()) roce(facts, out[HcaCapUnion::roce_cap]);
      return true;
    case CapabilityGroup::kDeviceMemory:
      device_memory(facts.limits, out[HcaCapUnion::device_mem_cap]);
      return true;
    case CapabilityGroup::kQos:
      quality_of_service(facts.limits, out[HcaCapUnion::qos_cap]);
      return true;
    case CapabilityGroup::kDeviceEvent:
      events(out[HcaCapUnion::device_event_cap]);
      return true;
    case CapabilityGroup::kCrypto:
      crypto(facts.crypto, out[HcaCapUnion::crypto_caps]);
      return true;
    // Nothing of these works, so that all their fields are 0.
    case CapabilityGroup::kIpoibOffloads:
    case CapabilityGroup::kIpoibEnhancedOffloads:
    case CapabilityGroup::kNicFlowTable:
    case CapabilityGroup::kEswitchFlowTable:
    case CapabilityGroup::kEswitch:
    case CapabilityGroup::kVectorCalculation:
    case CapabilityGroup::kDebug:
    case CapabilityGroup::kTls:
    case CapabilityGroup::kVirtioEmulation:
    case CapabilityGroup::kIpsec:
    case CapabilityGroup::kWqeBasedFlowTable:
    case CapabilityGroup::kParseGraph:
    case CapabilityGroup::kShampo:
    case CapabilityGroup::kMacsec:
    case CapabilityGroup::kGeneral2:
    case CapabilityGroup::kPortSelection:
    case CapabilityGroup::kAdvancedVirtualization:
      return true;
  }
  return false;
}

}  // namespace verbatim::prm
