// SPDX-License-Identifier: MIT
#pragma once

// A datagram with the IP and UDP headers around it, for what sees or writes whole IP packets: captures, raw
// sockets.

#include "wire/format/icrc.h"
#include "wire/format/ip.h"

namespace verbatim::roce {

struct Datagram {
  Envelope envelope;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;           ///< IPv6 only
  uint16_t udp_checksum = 0;         ///< as is; RoCEv2 leaves it 0
  std::span<const uint8_t> payload;  ///< BTH first, for RoCEv2

  size_t header_bytes() const { return (envelope.is_ipv4() ? Ipv4::kBytes : Ipv6::kBytes) + Udp::kBytes; }

  /// From an IP packet. What follows it (of an Ethernet frame) is ignored. Any UDP ports will do.
  static Parsed<Datagram> parse(std::span<const uint8_t> packet);
  /// The headers alone; their number of bytes, 0: no room for them. IPv4's checksum is computed.
  size_t emit_headers(std::span<uint8_t> out) const;
};

}  // namespace verbatim::roce
