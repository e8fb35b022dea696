// SPDX-License-Identifier: MIT
#pragma once

#include "lib/ibverbs/public.h"

namespace verbatim::verbs {

/// The Ethernet address that packets to a RoCE GID carry: from the GID itself where it says so (multicast,
/// link-local), from this host's interfaces, from the neighbours that the kernel knows of. False: none of
/// them knows it.
bool find_ethernet_address(const ibv_gid& gid, uint8_t mac[ETHERNET_LL_SIZE]);

}  // namespace verbatim::verbs
