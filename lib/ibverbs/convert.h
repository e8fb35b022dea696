// SPDX-License-Identifier: MIT
#pragma once

// Between the records of the interface and those of the hardware interface.

#include "device/hw/hca.h"
#include "lib/ibverbs/public.h"

namespace verbatim::verbs {

/// Largest standard MTU that fits into `bytes`; at least 256.
ibv_mtu mtu_code(uint32_t bytes);
/// 0: no such MTU.
uint32_t mtu_bytes(ibv_mtu mtu);

hw::AddressAttributes to_device(const ibv_ah_attr& attributes);
ibv_ah_attr from_device(const hw::AddressAttributes& attributes);
hw::QpAttributes to_device(const ibv_qp_attr& attributes);
ibv_qp_attr from_device(const hw::QpAttributes& attributes);
Gid to_device(const ibv_gid& gid);

}  // namespace verbatim::verbs
