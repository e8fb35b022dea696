// SPDX-License-Identifier: MIT
// Ports, P_Keys and GIDs. A device has one port, which is Ethernet or of an InfiniBand subnet.
#include <endian.h>

#include <algorithm>
#include <cstring>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/convert.h"
#include "lib/ibverbs/operations.h"
#include "lib/ibverbs/undeclared.h"

namespace verbatim::verbs {
namespace {

constexpr uint32_t kPort = 1;
constexpr uint8_t kWidth4x = 2;
constexpr uint8_t kPhysicalDisabled = 3, kPhysicalUp = 5;
constexpr uint8_t kOneLane = 1;  ///< virtual lane
/// The record as it was when the exported call was made.
constexpr size_t kFirstPortAttrBytes = offsetof(ibv_port_attr, port_cap_flags2);

/// ibv_port_attr.active_speed for the bandwidth of one of four lanes.
uint8_t speed_code(uint32_t lane_mbps) {
  if (lane_mbps >= 100'000) return 128;
  if (lane_mbps >= 50'000) return 64;
  if (lane_mbps >= 25'000) return 32;
  if (lane_mbps >= 14'000) return 16;
  if (lane_mbps >= 10'000) return 4;
  return lane_mbps >= 5'000 ? 2 : 1;
}

ibv_port_attr describe_port(Context& context) {
  const hw::PortState state = context.hca->port();
  ibv_port_attr attr{};
  attr.state = state.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = mtu_code(state.max_mtu);
  attr.active_mtu = mtu_code(state.active_mtu);
  attr.gid_tbl_len = static_cast<int>(state.gid_entries);
  attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  attr.max_msg_sz = context.hca->limits().max_send_message_bytes;
  attr.pkey_tbl_len = static_cast<uint16_t>(state.pkey_entries);
  attr.active_width = kWidth4x;
  attr.active_speed = speed_code(state.speed_mbps / 4);
  attr.phys_state = state.active ? kPhysicalUp : kPhysicalDisabled;
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  attr.flags = IBV_QPF_GRH_REQUIRED;
  if (!state.is_infiniband()) return attr;
  attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
  attr.flags = 0;
  attr.port_cap_flags = IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_CM_SUP;
  attr.lid = state.lid;
  attr.sm_lid = state.sm_lid;
  attr.bad_pkey_cntr = state.other_partitions;
  attr.max_vl_num = kOneLane;
  return attr;
}

int no_such_port(Context& context, const char* call, uint32_t port) {
  return refuse(context, EINVAL, std::string(call) + ": there is no port " + std::to_string(port));
}

int query_port(ibv_context* public_context, uint8_t port, ibv_port_attr* attr, size_t attr_bytes) {
  Context* context = usable(public_context);
  if (context == nullptr) return EIO;
  if (port != kPort) return no_such_port(*context, "ibv_query_port", port);
  const ibv_port_attr full = describe_port(*context);
  std::memcpy(attr, &full, std::min(attr_bytes, sizeof full));
  return 0;
}

/// 0, EINVAL, or ENODATA: the entry is empty.
int read_gid(ibv_context* public_context, uint32_t port, uint32_t index, ibv_gid_entry& out) {
  Context* context = usable(public_context);
  if (context == nullptr) return EIO;
  if (port != kPort) return no_such_port(*context, "ibv_query_gid", port);
  if (index >= context->hca->port().gid_entries)
    return refuse(*context, EINVAL, "the GID table has no index " + std::to_string(index));
  const hw::GidEntry entry = context->hca->gid(index);
  out = {};
  if (entry.gid.is_zero()) return ENODATA;
  std::memcpy(out.gid.raw, entry.gid.bytes.data(), sizeof out.gid.raw);
  out.gid_index = index;
  out.port_num = port;
  out.gid_type = static_cast<uint32_t>(entry.type);
  out.ndev_ifindex = entry.interface_index;
  return 0;
}

int fail(int error) {
  errno = error;
  return -1;
}

}  // namespace

void install_port_operations(verbs_context& verbs) {
  verbs.query_port = query_port;
  verbs.context.ops._compat_query_port = ibv_query_port;
}

}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

int ibv_query_port(ibv_context* context, uint8_t port_num, _compat_ibv_port_attr* port_attr) {
  return query_port(context, port_num, reinterpret_cast<ibv_port_attr*>(port_attr), kFirstPortAttrBytes);
}

int ibv_query_port_speed(ibv_context* public_context, uint32_t port_num, uint64_t* port_speed) {
  Context* context = usable(public_context);
  if (context == nullptr) return EIO;
  if (port_num != kPort) return no_such_port(*context, "ibv_query_port_speed", port_num);
  *port_speed = context->hca->port().speed_mbps / 100;
  return 0;
}

int ibv_query_gid(ibv_context* context, uint8_t port_num, int index, ibv_gid* gid) {
  ibv_gid_entry entry;
  const int error = read_gid(context, port_num, static_cast<uint32_t>(index), entry);
  if (error != 0 && error != ENODATA) return fail(error);
  *gid = entry.gid;
  return 0;
}

int ibv_query_gid_type(ibv_context* context, uint8_t port_num, unsigned int index, ibv_gid_type_sysfs* type) {
  ibv_gid_entry entry;
  const int error = read_gid(context, port_num, index, entry);
  if (error != 0 && error != ENODATA) return fail(error);
  *type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? IBV_GID_TYPE_SYSFS_ROCE_V2 : IBV_GID_TYPE_SYSFS_IB_ROCE_V1;
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t port_num, uint32_t gid_index, ibv_gid_entry* entry,
                      uint32_t flags, size_t entry_size) {
  if (flags != 0) return EOPNOTSUPP;
  ibv_gid_entry full;
  const int error = read_gid(context, port_num, gid_index, full);
  if (error == 0) std::memcpy(entry, &full, std::min(entry_size, sizeof full));
  return error;
}

ssize_t _ibv_query_gid_table(ibv_context* public_context, ibv_gid_entry* entries, size_t max_entries,
                             uint32_t flags, size_t entry_size) {
  if (flags != 0) return -EOPNOTSUPP;
  Context* context = usable(public_context);
  if (context == nullptr) return -EIO;
  const uint32_t table = context->hca->port().gid_entries;
  auto* out = reinterpret_cast<char*>(entries);
  size_t count = 0;
  for (uint32_t index = 0; index < table; index++) {
    ibv_gid_entry full;
    if (read_gid(public_context, kPort, index, full) != 0) continue;
    if (count == max_entries)
      return -refuse(*context, EINVAL, "ibv_query_gid_table: more GIDs in use than there is room for");
    std::memcpy(out + count++ * entry_size, &full, std::min(entry_size, sizeof full));
  }
  return static_cast<ssize_t>(count);
}

int ibv_query_pkey(ibv_context* public_context, uint8_t port_num, int index, __be16* pkey) {
  Context* context = usable(public_context);
  if (context == nullptr) return -1;
  if (port_num != kPort) return fail(no_such_port(*context, "ibv_query_pkey", port_num));
  const auto value = context->hca->pkey(static_cast<uint32_t>(index));
  if (!value) return fail(refuse(*context, value.error()));
  *pkey = htobe16(*value);
  return 0;
}

int ibv_get_pkey_index(ibv_context* context, uint8_t port_num, __be16 pkey) {
  __be16 found = 0;
  for (int index = 0; ibv_query_pkey(context, port_num, index, &found) == 0; index++)
    if (found == pkey) return index;
  return -1;
}

}  // extern "C"
