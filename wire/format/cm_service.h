// SPDX-License-Identifier: MIT
#pragma once

// How the RDMA IP CM service (annex A11 of the specification, the kernel's rdma_cm) uses the connection
// manager's messages: services stand for ports, and a REQ's or SIDR_REQ's private data begin with the
// addresses.

#include "base/gid.h"
#include "wire/format/layout.h"

namespace verbatim::roce::cm {

enum class PortSpace : uint16_t { kIpoib = 0x0002, kTcp = 0x0106, kUdp = 0x0111, kIb = 0x013f };

constexpr uint64_t service_id(PortSpace space, uint16_t port) {
  return static_cast<uint64_t>(space) << 16 | port;
}
constexpr uint16_t port_of(uint64_t service_id) { return static_cast<uint16_t>(service_id); }
/// Of a known space or not; that of another kind of service is above 16 bits, and no PortSpace.
constexpr uint64_t space_of(uint64_t service_id) { return service_id >> 16; }

/// In front of the program's private data.
struct ServiceHeader {
  bool ipv6 = false;
  uint16_t source_port = 0;  ///< that of the destination is in the service
  Gid source, destination;   ///< IPv4 ones mapped

  static constexpr size_t kBytes = 36;
  static Parsed<ServiceHeader> parse(std::span<const uint8_t> private_data);
  /// kBytes, or 0: no room for them.
  size_t emit(std::span<uint8_t> out) const;
  friend bool operator==(const ServiceHeader&, const ServiceHeader&) = default;
};

}  // namespace verbatim::roce::cm
