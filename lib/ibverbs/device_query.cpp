// SPDX-License-Identifier: MIT
// What a device says of itself. Nothing is promised that does not work.
#include <endian.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/operations.h"

namespace verbatim::verbs {
namespace {

constexpr uint64_t kPageSizes = ~0xfffull;
/// No page is ever pinned, so that every operation may touch memory on demand.
constexpr uint32_t kOdpRc = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                            IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV |
                            IBV_ODP_SUPPORT_FLUSH | IBV_ODP_SUPPORT_ATOMIC_WRITE;
/// Beyond those of ibv_device_cap_flags, which no public header names.
constexpr uint64_t kFlushGlobal = 1ull << 38, kFlushPersistent = 1ull << 39, kAtomicWrite = 1ull << 40;
constexpr uint32_t kOdpUc =
    IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV;
constexpr uint32_t kOdpUd = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;

void fill(const hw::Limits& limits, ibv_device_attr& attr) {
  attr = {};
  std::snprintf(attr.fw_ver, sizeof attr.fw_ver, "%s", limits.firmware.c_str());
  attr.node_guid = htobe64(limits.node_guid);
  attr.sys_image_guid = attr.node_guid;
  attr.max_mr_size = limits.max_mr_bytes;
  attr.page_size_cap = kPageSizes;
  attr.vendor_id = limits.vendor_id;
  attr.vendor_part_id = limits.vendor_part_id;
  attr.hw_ver = limits.hardware_version;
  attr.max_qp = static_cast<int>(limits.max_qp);
  attr.max_qp_wr = static_cast<int>(limits.max_qp_wr);
  attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                          IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_XRC |
                          IBV_DEVICE_AUTO_PATH_MIG;
  if (limits.max_mw != 0) attr.device_cap_flags |= IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  if (limits.max_frame_bytes != 0)
    attr.device_cap_flags |= IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_RAW_IP_CSUM;
  attr.max_mw = static_cast<int>(limits.max_mw);
  attr.max_sge = static_cast<int>(limits.max_sge);
  attr.max_sge_rd = static_cast<int>(limits.max_sge_rd);
  attr.max_cq = static_cast<int>(limits.max_cq);
  attr.max_cqe = static_cast<int>(limits.max_cqe);
  attr.max_mr = static_cast<int>(limits.max_mr);
  attr.max_pd = static_cast<int>(limits.max_pd);
  attr.max_qp_rd_atom = static_cast<int>(limits.max_qp_rd_atomic);
  attr.max_res_rd_atom = static_cast<int>(limits.max_res_rd_atomic);
  attr.max_qp_init_rd_atom = static_cast<int>(limits.max_qp_init_rd_atomic);
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_mcast_grp = static_cast<int>(limits.max_mcast_grp);
  attr.max_mcast_qp_attach = static_cast<int>(limits.max_mcast_qp_attach);
  attr.max_total_mcast_qp_attach = static_cast<int>(limits.max_total_mcast_qp_attach);
  attr.max_ah = static_cast<int>(limits.max_ah);
  attr.max_srq = static_cast<int>(limits.max_srq);
  attr.max_srq_wr = static_cast<int>(limits.max_srq_wr);
  attr.max_srq_sge = static_cast<int>(limits.max_srq_sge);
  attr.max_pkeys = static_cast<uint16_t>(limits.max_pkeys);
  attr.local_ca_ack_delay = limits.local_ack_delay;
  attr.phys_port_cnt = 1;
}

/// What it does with Ethernet frames.
void fill_frames(const hw::Limits& limits, ibv_device_attr_ex& full) {
  constexpr uint32_t kRaw = 1u << IBV_QPT_RAW_PACKET;
  full.raw_packet_caps = IBV_RAW_PACKET_CAP_IP_CSUM | IBV_RAW_PACKET_CAP_CVLAN_STRIPPING |
                         IBV_RAW_PACKET_CAP_SCATTER_FCS | IBV_RAW_PACKET_CAP_DELAY_DROP;
  full.device_cap_flags_ex |= IBV_DEVICE_RAW_SCATTER_FCS | IBV_DEVICE_PCI_WRITE_END_PADDING;
  full.tso_caps = {1u << limits.log_segmented_bytes_max, kRaw};
  full.rss_caps.supported_qpts = kRaw;
  full.rss_caps.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
  full.rss_caps.rx_hash_fields_mask =
      IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6 |
      IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP |
      IBV_RX_HASH_DST_PORT_UDP | IBV_RX_HASH_IPSEC_SPI | uint64_t{IBV_RX_HASH_INNER};
  full.packet_pacing_caps = {limits.pacing_min_kbps, limits.pacing_max_kbps, kRaw};
}

// What a device is like does not change with a fork: its child may ask, too.
int query_device_ex(ibv_context* public_context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, size_t attr_size) {
  Context* context = Context::of(public_context);
  if (input != nullptr && input->comp_mask != 0)
    return refuse(*context, EINVAL, "ibv_query_device_ex: unknown bits in comp_mask");
  if (attr_size < sizeof attr->orig_attr)
    return refuse(*context, EINVAL, "ibv_query_device_ex: the record is too short");
  const hw::Limits& limits = context->hca->limits();
  ibv_device_attr_ex full{};
  fill(limits, full.orig_attr);
  full.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  full.odp_caps.per_transport_caps = {kOdpRc, kOdpUc, kOdpUd};
  full.xrc_odp_caps = kOdpRc;
  full.completion_timestamp_mask = UINT64_MAX >> 1;
  full.hca_core_clock = limits.timestamp_khz;
  full.device_cap_flags_ex = full.orig_attr.device_cap_flags | kFlushGlobal | kFlushPersistent | kAtomicWrite;
  full.max_wq_type_rq = limits.max_wq;
  full.rss_caps.max_rwq_indirection_tables = limits.max_wq_tables;
  full.rss_caps.max_rwq_indirection_table_size = limits.max_wq_table_size;
  if (limits.max_frame_bytes != 0) fill_frames(limits, full);
  if (limits.max_tags != 0)
    full.tm_caps = {limits.max_rendezvous_header_bytes, limits.max_tags, IBV_TM_CAP_RC,
                    limits.max_tag_operations, 1};
  full.cq_mod_caps = {limits.max_cq_count, limits.max_cq_period_us};
  full.phys_port_cnt_ex = 1;
  const uint32_t log_dm = limits.dm[static_cast<size_t>(hw::DmKind::kMemic)].log_bytes;
  full.max_dm_size = log_dm == 0 ? 0 : uint64_t{1} << log_dm;
  std::memcpy(attr, &full, std::min(attr_size, sizeof full));
  return 0;
}

int query_rt_values(ibv_context* public_context, ibv_values_ex* values) {
  Context* context = usable(public_context);
  if (context == nullptr) return EIO;
  if ((values->comp_mask & ~static_cast<uint32_t>(IBV_VALUES_MASK_RAW_CLOCK)) != 0)
    return refuse(*context, EINVAL, "ibv_query_rt_values_ex: unknown bits in comp_mask");
  if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0)
    values->raw_clock = {0, static_cast<long>(context->hca->hardware_clock())};
  return 0;
}

}  // namespace
}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

int ibv_query_device(ibv_context* public_context, ibv_device_attr* attr) {
  fill(Context::of(public_context)->hca->limits(), *attr);
  return 0;
}

}  // extern "C"

namespace verbatim::verbs {

void install_device_operations(verbs_context& verbs) {
  verbs.query_device_ex = query_device_ex;
  verbs.query_rt_values = query_rt_values;
  verbs.context.ops._compat_query_device = ibv_query_device;
  install_port_operations(verbs);
}

}  // namespace verbatim::verbs
