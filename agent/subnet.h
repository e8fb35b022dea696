// SPDX-License-Identifier: MIT
#pragma once

// The InfiniBand subnet of the host: every process of a user and network namespace sees the same one. Its
// LIDs follow from what all know anyway, the order of the devices, so that nobody has to be asked for them;
// the agent stands for the subnet's manager.

#include <cstdint>

#include "base/gid.h"

namespace verbatim::agent {

inline constexpr uint16_t kManagerLid = 1;

/// Of the port of the device at this place in the list.
inline uint16_t lid_of(uint32_t device_index) {
  return static_cast<uint16_t>(kManagerLid + 1 + device_index);
}

/// The GID of a port: the default prefix and its GUID, in host order.
inline Gid subnet_gid(uint64_t guid) {
  Gid gid;
  gid.bytes[0] = 0xfe;
  gid.bytes[1] = 0x80;
  for (size_t i = 0; i < 8; i++) gid.bytes[8 + i] = static_cast<uint8_t>(guid >> (56 - 8 * i));
  return gid;
}

}  // namespace verbatim::agent
