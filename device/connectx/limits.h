// SPDX-License-Identifier: MIT
#pragma once

#include "device/hw/hca.h"

namespace verbatim::connectx {

/// What a ConnectX-7 reports, as far as it works here.
hw::Limits connectx7_limits(uint64_t node_guid);
/// Adds what an Ethernet port does with frames.
void describe_frames(hw::Limits& limits);

}  // namespace verbatim::connectx
