// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbatim::engine {

/// Bytes of an Ethernet frame, without the FCS, that a port takes.
inline constexpr uint32_t kFrameBytesMin = 14;
inline constexpr uint32_t kFrameBytesMax = 8192;

/// What lies in front of an MPLS label stack.
enum MplsCarrier : uint8_t { kNoMpls = 0, kMplsOnEthernet = 1, kMplsOnUdp = 2, kMplsOnGre = 3 };

/// The headers of one packet, as they lie there (network order).
struct PacketHeaders {
  uint8_t destination_mac[6], source_mac[6];
  uint8_t ether_type[2];                      ///< behind the last VLAN tag
  uint8_t is_tagged;                          ///< 1: there is a VLAN tag
  uint8_t vlan[2];                            ///< of the first: priority, DEI, identifier
  uint8_t network;                            ///< 4 or 6: an IP header; 0: something else
  uint8_t source_ip[16], destination_ip[16];  ///< IPv4 ones in the first four bytes
  uint8_t traffic_class, hop_limit;           ///< type of service and time to live of IPv4
  uint8_t protocol;                           ///< of what is behind the IP header and its extensions
  uint8_t flow_label[3];
  uint8_t transport;  ///< `protocol` of a TCP or UDP header that is there; 0: none is
  uint8_t source_port[2], destination_port[2];
  uint8_t mpls_carrier;  ///< MplsCarrier
  uint8_t mpls[4];       ///< first entry of its label stack

  bool is_multicast() const { return (destination_mac[0] & 1) != 0; }
};

/// What steering looks at in a frame: its headers, those of a tunnel and those of the packet inside. Bytes
/// alone, so that a rule is one such record for values and one for masks.
struct FrameHeaders : PacketHeaders {
  uint8_t vxlan[4];  ///< 1, then the network's identifier; all 0: no VXLAN header
  uint8_t is_gre;    ///< 1: what follows is of a GRE header
  uint8_t gre_protocol[2];
  uint8_t gre_key[4];  ///< 0: it has none
  uint8_t is_esp;      ///< 1: what follows is of an ESP header
  uint8_t esp_index[4];
  PacketHeaders inner;
};
static_assert(alignof(FrameHeaders) == 1 && sizeof(PacketHeaders) == 66 && sizeof(FrameHeaders) == 148);

inline constexpr uint8_t kProtocolTcp = 6, kProtocolUdp = 17, kProtocolGre = 47, kProtocolEsp = 50;

/// Where the headers of a packet begin in its frame (0: not there).
struct PacketPlaces {
  uint32_t network_at = 0, transport_at = 0;
  uint32_t behind_network = 0;  ///< what `protocol` tells of
  uint32_t end = 0;  ///< of the IP packet: of what it says, but no later than the frame; padding follows
  bool is_fragment = false;
};

/// A frame's headers, and where they begin: the outer ones, and those of the packet in a tunnel.
struct ParsedFrame : PacketPlaces {
  FrameHeaders headers{};
  PacketPlaces inner;

  /// Whether an IP packet carries another packet.
  bool is_tunnel() const {
    const PacketHeaders& in = headers.inner;
    return headers.network != 0 && (in.network != 0 || (in.ether_type[0] | in.ether_type[1]) != 0);
  }
};

/// Any bytes of at least kFrameBytesMin.
ParsedFrame parse_frame(const uint8_t* frame, uint32_t bytes);

}  // namespace verbatim::engine
