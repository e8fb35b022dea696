// SPDX-License-Identifier: MIT
#include "lib/ibverbs/convert.h"

#include <cstring>

namespace verbatim::verbs {

ibv_mtu mtu_code(uint32_t bytes) {
  if (bytes >= 4096) return IBV_MTU_4096;
  if (bytes >= 2048) return IBV_MTU_2048;
  if (bytes >= 1024) return IBV_MTU_1024;
  return bytes >= 512 ? IBV_MTU_512 : IBV_MTU_256;
}

uint32_t mtu_bytes(ibv_mtu mtu) { return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0; }

Gid to_device(const ibv_gid& gid) {
  Gid out;
  std::memcpy(out.bytes.data(), gid.raw, sizeof gid.raw);
  return out;
}

hw::AddressAttributes to_device(const ibv_ah_attr& in) {
  hw::AddressAttributes out;
  out.dgid = to_device(in.grh.dgid);
  out.flow_label = in.grh.flow_label;
  out.sgid_index = in.grh.sgid_index;
  out.hop_limit = in.grh.hop_limit;
  out.traffic_class = in.grh.traffic_class;
  out.service_level = in.sl;
  out.source_path_bits = in.src_path_bits;
  out.static_rate = in.static_rate;
  out.port = in.port_num;
  out.dlid = in.dlid;
  out.is_global = in.is_global != 0;
  return out;
}

ibv_ah_attr from_device(const hw::AddressAttributes& in) {
  ibv_ah_attr out{};
  std::memcpy(out.grh.dgid.raw, in.dgid.bytes.data(), sizeof out.grh.dgid.raw);
  out.grh.flow_label = in.flow_label;
  out.grh.sgid_index = in.sgid_index;
  out.grh.hop_limit = in.hop_limit;
  out.grh.traffic_class = in.traffic_class;
  out.sl = in.service_level;
  out.src_path_bits = in.source_path_bits;
  out.static_rate = in.static_rate;
  out.port_num = in.port;
  out.dlid = in.dlid;
  out.is_global = in.is_global ? 1 : 0;
  return out;
}

hw::QpAttributes to_device(const ibv_qp_attr& in) {
  hw::QpAttributes out;
  out.state = static_cast<hw::QpState>(in.qp_state);
  out.current_state = static_cast<hw::QpState>(in.cur_qp_state);
  out.path_mtu = mtu_bytes(in.path_mtu);
  out.path_mig_state = static_cast<uint8_t>(in.path_mig_state);
  out.qkey = in.qkey;
  out.rq_psn = in.rq_psn;
  out.sq_psn = in.sq_psn;
  out.dest_qpn = in.dest_qp_num;
  out.access = in.qp_access_flags;
  out.path = to_device(in.ah_attr);
  out.alternate_path = to_device(in.alt_ah_attr);
  out.pkey_index = in.pkey_index;
  out.alternate_pkey_index = in.alt_pkey_index;
  out.en_sqd_async_notify = in.en_sqd_async_notify;
  out.max_rd_atomic = in.max_rd_atomic;
  out.max_dest_rd_atomic = in.max_dest_rd_atomic;
  out.min_rnr_timer = in.min_rnr_timer;
  out.port = in.port_num;
  out.timeout = in.timeout;
  out.retry_count = in.retry_cnt;
  out.rnr_retry = in.rnr_retry;
  out.alternate_port = in.alt_port_num;
  out.alternate_timeout = in.alt_timeout;
  out.rate_limit = in.rate_limit;
  return out;
}

ibv_qp_attr from_device(const hw::QpAttributes& in) {
  ibv_qp_attr out{};
  out.qp_state = static_cast<ibv_qp_state>(in.state);
  out.cur_qp_state = static_cast<ibv_qp_state>(in.state);
  out.path_mtu = mtu_code(in.path_mtu);
  out.path_mig_state = static_cast<ibv_mig_state>(in.path_mig_state);
  out.qkey = in.qkey;
  out.rq_psn = in.rq_psn;
  out.sq_psn = in.sq_psn;
  out.dest_qp_num = in.dest_qpn;
  out.qp_access_flags = in.access;
  out.ah_attr = from_device(in.path);
  out.alt_ah_attr = from_device(in.alternate_path);
  out.pkey_index = in.pkey_index;
  out.alt_pkey_index = in.alternate_pkey_index;
  out.en_sqd_async_notify = in.en_sqd_async_notify;
  out.sq_draining = in.sq_draining ? 1 : 0;
  out.max_rd_atomic = in.max_rd_atomic;
  out.max_dest_rd_atomic = in.max_dest_rd_atomic;
  out.min_rnr_timer = in.min_rnr_timer;
  out.port_num = in.port;
  out.timeout = in.timeout;
  out.retry_cnt = in.retry_count;
  out.rnr_retry = in.rnr_retry;
  out.alt_port_num = in.alternate_port;
  out.alt_timeout = in.alternate_timeout;
  out.rate_limit = in.rate_limit;
  return out;
}

}  // namespace verbatim::verbs
