// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "wire/link/segment.h"

namespace verbatim::engine {

/// Bytes in front of every received datagram.
inline constexpr uint32_t kGrhBytes = 40;

/// Writes the network header that a RoCE port leaves in the GRH area: an IPv6 header or GRH in all 40 bytes,
/// or 20 zero bytes and an IPv4 header (RoCE v2 over IPv4).
void write_grh(const wire::Segment& segment, uint8_t out[kGrhBytes]);

}  // namespace verbatim::engine
