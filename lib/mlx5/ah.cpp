// SPDX-License-Identifier: MIT
// Address handles: an address vector as it goes into a work queue entry.
#include <cstring>
#include <new>

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {

verbs::AddressHandle* create_ah(verbs::ProtectionDomain& domain, const ibv_ah_attr& attributes) {
  auto* ah = new (std::nothrow) AddressHandle;
  if (ah == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  connectx::DatagramSegment& vector = ah->vector;
  const ibv_global_route& route = attributes.grh;
  vector.dest_qpn = connectx::kExtendedAv;
  vector.rate_sl = static_cast<uint8_t>(attributes.static_rate << 4 | (attributes.sl & 0xf));
  vector.fl_mlid = attributes.src_path_bits & 0x7f;
  const bool infiniband = domain.context->hca->port().is_infiniband();
  vector.rlid = infiniband ? attributes.dlid : ibv_flow_label_to_udp_sport(route.flow_label);
  if (infiniband && attributes.is_global == 0) return ah;
  vector.traffic_class = route.traffic_class;
  vector.hop_limit = route.hop_limit;
  vector.gid_flow = connectx::kGrhPresent | uint32_t{route.sgid_index} << connectx::kSourceGidShift |
                    (route.flow_label & connectx::kFlowLabelMask);
  std::memcpy(vector.rgid, route.dgid.raw, sizeof vector.rgid);
  return ah;
}

void free_ah(verbs::AddressHandle& ah) { delete static_cast<AddressHandle*>(&ah); }

}  // namespace verbatim::mlx5
