// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace verbatim {

/// A global identifier: 16 bytes in network order, an IPv6 address or an IPv4-mapped one for RoCE.
struct Gid {
  std::array<uint8_t, 16> bytes{};
  friend bool operator==(const Gid&, const Gid&) = default;

  bool is_zero() const { return *this == Gid{}; }
  /// ff00::/8, or 224.0.0.0/4 mapped
  bool is_multicast() const { return bytes[0] == 0xff || (is_ipv4_mapped() && bytes[12] >> 4 == 0xe); }
  /// ::ffff:a.b.c.d
  bool is_ipv4_mapped() const {
    static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(bytes.data(), kPrefix, sizeof kPrefix) == 0;
  }
};

/// How a GID's packets travel (IBV_GID_TYPE_*, gid_attrs/types in sysfs).
enum class GidType : uint8_t { kInfiniband = 0, kRoceV1 = 1, kRoceV2 = 2 };

}  // namespace verbatim
