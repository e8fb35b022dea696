// SPDX-License-Identifier: MIT
#pragma once

#include "tools/doctor/report.h"
#include "tools/doctor/route.h"

namespace verbatim::doctor {

/// Whether the host answers at its queue pair 1 in that time, and if not, who says why. A neighbour is looked
/// for during three seconds before the kernel says that there is none.
void check_answer(Report& report, const Address& host, const Route& route, uint64_t patience_ns);

/// Whether packets of this path MTU arrive; if not, which do.
void check_large_packets(Report& report, const Address& host, uint32_t path_mtu);

/// Of the largest IP packet of a path MTU.
uint32_t packet_bytes(uint32_t path_mtu, const Address& host);
/// Of the IP packet of a message to queue pair 1.
uint32_t message_bytes(const Address& host);

}  // namespace verbatim::doctor
