// SPDX-License-Identifier: MIT
#include "lib/rdmacm/convert.h"

#include <endian.h>

#include "lib/rdmacm/sockaddr.h"

namespace verbatim::rdmacm {

static_assert(sizeof(Gid) == sizeof(ibv_gid));

ibv_ah_attr to_public(const agent::cm::AddressVector& from) {
  ibv_ah_attr to{};
  set_gid(to.grh.dgid, from.destination);
  to.grh.flow_label = from.flow_label;
  to.grh.sgid_index = from.gid_index;
  to.grh.hop_limit = from.hop_limit;
  to.grh.traffic_class = from.traffic_class;
  to.dlid = from.destination_lid;
  to.sl = from.service_level;
  to.static_rate = from.static_rate;
  to.is_global = 1;
  to.port_num = from.port;
  return to;
}

void to_public(const agent::cm::QpAttributes& from, ibv_qp_attr& to) {
  to = {};
  to.qp_state = static_cast<ibv_qp_state>(from.state);
  to.path_mtu = static_cast<ibv_mtu>(from.path_mtu);
  to.path_mig_state = static_cast<ibv_mig_state>(from.path_mig_state);
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn;
  to.sq_psn = from.sq_psn;
  to.dest_qp_num = from.dest_qp_num;
  to.qp_access_flags = from.access_flags;
  if ((from.mask & IBV_QP_AV) != 0) to.ah_attr = to_public(from.path);
  if ((from.mask & IBV_QP_ALT_PATH) != 0) to.alt_ah_attr = to_public(from.alternate);
  to.pkey_index = from.pkey_index;
  to.alt_pkey_index = from.alternate_pkey_index;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_count;
  to.rnr_retry = from.rnr_retry;
  to.alt_port_num = from.alternate_port;
  to.alt_timeout = from.alternate_timeout;
}

ibv_sa_path_rec to_public(const agent::cm::PathRecord& from) {
  constexpr uint8_t kExactly = 2;
  ibv_sa_path_rec to{};
  set_gid(to.sgid, from.source);
  set_gid(to.dgid, from.destination);
  to.slid = htobe16(from.source_lid);
  to.dlid = htobe16(from.destination_lid);
  to.flow_label = htobe32(from.flow_label);
  to.hop_limit = from.hop_limit;
  to.traffic_class = from.traffic_class;
  to.reversible = 1;
  to.numb_path = 1;
  to.pkey = htobe16(from.pkey);
  to.sl = from.service_level;
  to.mtu_selector = to.rate_selector = to.packet_life_time_selector = kExactly;
  to.mtu = from.mtu;
  to.rate = from.rate;
  to.packet_life_time = from.packet_life_time;
  return to;
}

agent::cm::PathRecord from_public(const ibv_path_data& from) {
  constexpr uint8_t kValue = 0x3f;  // below the selector
  const ibv_path_record& path = from.path;
  const uint32_t flow_and_hops = be32toh(path.flowlabel_hoplimit);
  agent::cm::PathRecord to{};
  std::memcpy(&to.source, path.sgid.raw, sizeof to.source);
  std::memcpy(&to.destination, path.dgid.raw, sizeof to.destination);
  to.flow_label = (flow_and_hops >> 8) & 0xfffff;
  to.hop_limit = static_cast<uint8_t>(flow_and_hops);
  to.source_lid = be16toh(path.slid);
  to.destination_lid = be16toh(path.dlid);
  to.pkey = be16toh(path.pkey);
  to.traffic_class = path.tclass;
  to.service_level = be16toh(path.qosclass_sl) & 0xf;
  to.mtu = path.mtu & kValue;
  to.rate = path.rate & kValue;
  to.packet_life_time = path.packetlifetime & kValue;
  return to;
}

bool from_public(const sockaddr* from, agent::cm::SocketAddress& to) {
  const socklen_t bytes = length_of(from);
  if (bytes == 0) return false;
  to = agent::cm::socket_address(from, bytes);
  if (from->sa_family != AF_IB) return to.is_set();
  const auto& native = *reinterpret_cast<const sockaddr_ib*>(from);
  to.family = AF_IB;
  to.port = static_cast<uint16_t>(be64toh(native.sib_sid) & be64toh(native.sib_sid_mask));
  to.flow = be32toh(native.sib_flowinfo);
  to.scope = static_cast<uint32_t>(native.sib_scope_id);
  std::memcpy(&to.address, native.sib_addr.sib_raw, sizeof to.address);
  return true;
}

bool to_public(const agent::cm::SocketAddress& from, int port_space, sockaddr_storage& to) {
  if (from.family != AF_IB) return agent::cm::to_sockaddr(from, to) > 0;
  to = {};
  auto& native = reinterpret_cast<sockaddr_ib&>(to);
  native.sib_family = AF_IB;
  native.sib_pkey = htobe16(0xffff);
  native.sib_flowinfo = htobe32(from.flow);
  native.sib_scope_id = from.scope;
  std::memcpy(native.sib_addr.sib_raw, &from.address, sizeof from.address);
  if (from.port != 0) set_service(native, port_space, from.port);
  return true;
}

int space_of(const sockaddr_ib& address, int port_space) {
  const uint64_t mask = be64toh(address.sib_sid_mask) & RDMA_IB_IP_PS_MASK;
  const uint64_t service = be64toh(address.sib_sid) & mask;
  for (const int each : {RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP}) {
    const bool fits = port_space == each || port_space == RDMA_PS_IB;
    if (fits && service == ((static_cast<uint64_t>(each) << 16) & mask)) return each;
  }
  return 0;
}

}  // namespace verbatim::rdmacm
