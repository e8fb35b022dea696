// SPDX-License-Identifier: MIT
#include "engine/frame_headers.h"

#include <algorithm>
#include <cstring>

namespace verbatim::engine {

namespace {

constexpr uint32_t kVlan = 0x8100, kServiceVlan = 0x88a8, kIpv4 = 0x0800, kIpv6 = 0x86dd;
constexpr uint32_t kMplsUnicast = 0x8847, kMplsMulticast = 0x8848, kBridged = 0x6558;
constexpr uint32_t kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8, kTcpBytes = 20, kVlanBytes = 4;
constexpr uint32_t kFragmentBytes = 8, kVxlanBytes = 8, kGeneveBytes = 8, kGreBytes = 4, kEspBytes = 8,
                   kLabelBytes = 4;
constexpr uint32_t kVxlanPort = 4789, kGenevePort = 6081, kMplsPort = 6635;
constexpr uint8_t kProtocolIpv4 = 4, kProtocolIpv6 = 41;
constexpr int kTagsMax = 2;
constexpr int kExtensionsMax = 8;
constexpr int kLabelsMax = 8;

enum Extension : uint8_t { kHopByHop = 0, kRouting = 43, kFragment = 44, kDestination = 60 };

uint32_t get16(const uint8_t* at) { return static_cast<uint32_t>(at[0]) << 8 | at[1]; }

/// One packet, which begins anywhere in the frame and ends before `bytes`.
struct Packet {
  const uint8_t* frame;
  uint32_t bytes;
  PacketHeaders& headers;
  PacketPlaces& places;
  uint32_t behind_ethernet = 0;  ///< 0: no Ethernet header was read
};

void parse_transport(Packet& packet, uint32_t at) {
  PacketHeaders& headers = packet.headers;
  const bool tcp = headers.protocol == kProtocolTcp;
  if (!tcp && headers.protocol != kProtocolUdp) return;
  if (at + (tcp ? kTcpBytes : kUdpBytes) > packet.places.end) return;
  headers.transport = headers.protocol;
  packet.places.transport_at = at;
  std::memcpy(headers.source_port, packet.frame + at, 2);
  std::memcpy(headers.destination_port, packet.frame + at + 2, 2);
}

void parse_ipv4(Packet& packet, uint32_t at) {
  PacketHeaders& headers = packet.headers;
  PacketPlaces& places = packet.places;
  const uint8_t* ip = packet.frame + at;
  if (at + kIpv4Bytes > packet.bytes || ip[0] >> 4 != 4) return;
  const uint32_t head = (ip[0] & 0xfu) * 4, total = get16(ip + 2);
  if (head < kIpv4Bytes || at + head > packet.bytes) return;
  headers.network = 4;
  places.network_at = at;
  places.end = std::min(at + total, packet.bytes);
  std::memcpy(headers.source_ip, ip + 12, 4);
  std::memcpy(headers.destination_ip, ip + 16, 4);
  headers.traffic_class = ip[1];
  headers.hop_limit = ip[8];
  headers.protocol = ip[9];
  const uint32_t fragment = get16(ip + 6);
  places.is_fragment = (fragment & 0x3fff) != 0;  // its offset, or more follow
  if ((fragment & 0x1fff) != 0) return;
  places.behind_network = at + head;
  parse_transport(packet, at + head);
}

void parse_ipv6(Packet& packet, uint32_t at) {
  PacketHeaders& headers = packet.headers;
  PacketPlaces& places = packet.places;
  const uint8_t* frame = packet.frame;
  const uint8_t* ip = frame + at;
  if (at + kIpv6Bytes > packet.bytes || ip[0] >> 4 != 6) return;
  const uint32_t end = std::min(at + kIpv6Bytes + get16(ip + 4), packet.bytes);
  headers.network = 6;
  places.network_at = at;
  places.end = end;
  std::memcpy(headers.source_ip, ip + 8, 16);
  std::memcpy(headers.destination_ip, ip + 24, 16);
  headers.traffic_class = static_cast<uint8_t>(ip[0] << 4 | ip[1] >> 4);
  headers.flow_label[0] = ip[1] & 0xf;
  std::memcpy(headers.flow_label + 1, ip + 2, 2);
  headers.hop_limit = ip[7];
  headers.protocol = ip[6];
  at += kIpv6Bytes;
  for (int i = 0; i < kExtensionsMax; i++) {
    const uint8_t kind = headers.protocol;
    if (kind != kHopByHop && kind != kRouting && kind != kFragment && kind != kDestination) break;
    if (at + kFragmentBytes > end) return;
    headers.protocol = frame[at];
    if (kind == kFragment) {
      places.is_fragment = true;
      if ((get16(frame + at + 2) & 0xfff8) != 0) return;
      at += kFragmentBytes;
    } else {
      at += (frame[at + 1] + 1u) * 8;
    }
  }
  places.behind_network = at;
  parse_transport(packet, at);
}

void parse_network(Packet& packet, uint32_t ether_type, uint32_t at) {
  if (ether_type == kIpv4) parse_ipv4(packet, at);
  if (ether_type == kIpv6) parse_ipv6(packet, at);
}

void parse_ethernet(Packet& packet, uint32_t at) {
  PacketHeaders& headers = packet.headers;
  const uint8_t* frame = packet.frame;
  if (at + kFrameBytesMin > packet.bytes) return;
  std::memcpy(headers.destination_mac, frame + at, 6);
  std::memcpy(headers.source_mac, frame + at + 6, 6);
  at += 12;
  for (int i = 0; i < kTagsMax; i++) {
    const uint32_t type = get16(frame + at);
    if ((type != kVlan && type != kServiceVlan) || at + kVlanBytes + 2 > packet.bytes) break;
    if (!headers.is_tagged) std::memcpy(headers.vlan, frame + at + 2, 2);
    headers.is_tagged = 1;
    at += kVlanBytes;
  }
  std::memcpy(headers.ether_type, frame + at, 2);
  packet.behind_ethernet = at + 2;
  parse_network(packet, get16(frame + at), at + 2);
}

/// Behind a label stack nothing tells the kind of packet but its first bits.
void parse_labels(const Packet& outer, MplsCarrier carrier, uint32_t at, Packet& inner) {
  PacketHeaders& headers = outer.headers;
  if (at + kLabelBytes > outer.bytes) return;
  headers.mpls_carrier = carrier;
  std::memcpy(headers.mpls, outer.frame + at, kLabelBytes);
  for (int i = 0; i < kLabelsMax && at + kLabelBytes < outer.bytes; i++) {
    const bool last = (outer.frame[at + 2] & 1) != 0;
    at += kLabelBytes;
    if (!last) continue;
    const int version = outer.frame[at] >> 4;
    return parse_network(inner, version == 4 ? kIpv4 : version == 6 ? kIpv6 : 0, at);
  }
}

/// What a tunnel says by an EtherType that it carries.
void parse_carried(Packet& inner, uint32_t type, uint32_t at) {
  if (type == kBridged) return parse_ethernet(inner, at);
  parse_network(inner, type, at);
}

void parse_gre(const Packet& outer, FrameHeaders& headers, uint32_t at, Packet& inner) {
  constexpr uint8_t kChecksum = 0x80, kKey = 0x20, kSequence = 0x10;
  const uint8_t* gre = outer.frame + at;
  if (at + kGreBytes > outer.bytes) return;
  const uint8_t flags = gre[0];
  const uint32_t key_at = kGreBytes + ((flags & kChecksum) != 0 ? 4 : 0);
  const uint32_t head = key_at + ((flags & kKey) != 0 ? 4 : 0) + ((flags & kSequence) != 0 ? 4 : 0);
  if (at + head > outer.bytes) return;
  headers.is_gre = 1;
  std::memcpy(headers.gre_protocol, gre + 2, 2);
  if ((flags & kKey) != 0) std::memcpy(headers.gre_key, gre + key_at, 4);
  const uint32_t type = get16(gre + 2);
  if (type == kMplsUnicast || type == kMplsMulticast)
    return parse_labels(outer, kMplsOnGre, at + head, inner);
  parse_carried(inner, type, at + head);
}

void parse_vxlan(const Packet& outer, FrameHeaders& headers, uint32_t at, Packet& inner) {
  if (at + kVxlanBytes > outer.bytes) return;
  headers.vxlan[0] = 1;
  std::memcpy(headers.vxlan + 1, outer.frame + at + 4, 3);
  parse_ethernet(inner, at + kVxlanBytes);
}

void parse_geneve(const Packet& outer, uint32_t at, Packet& inner) {
  const uint8_t* geneve = outer.frame + at;
  if (at + kGeneveBytes > outer.bytes || geneve[0] >> 6 != 0) return;  // another version
  parse_carried(inner, get16(geneve + 2), at + kGeneveBytes + (geneve[0] & 0x3fu) * 4);
}

/// What the headers of the outer packet say that it carries.
void parse_tunnel(const Packet& outer, FrameHeaders& headers, Packet& inner) {
  const uint32_t type = get16(headers.ether_type);
  if (type == kMplsUnicast || type == kMplsMulticast)
    return parse_labels(outer, kMplsOnEthernet, outer.behind_ethernet, inner);
  const uint32_t at = outer.places.behind_network;
  if (at == 0 || outer.places.is_fragment) return;
  if (headers.transport == kProtocolUdp) {
    const uint32_t port = get16(headers.destination_port);
    if (port == kVxlanPort) return parse_vxlan(outer, headers, at + kUdpBytes, inner);
    if (port == kGenevePort) return parse_geneve(outer, at + kUdpBytes, inner);
    if (port == kMplsPort) return parse_labels(outer, kMplsOnUdp, at + kUdpBytes, inner);
    return;
  }
  if (headers.protocol == kProtocolGre) return parse_gre(outer, headers, at, inner);
  if (headers.protocol == kProtocolIpv4) return parse_network(inner, kIpv4, at);
  if (headers.protocol == kProtocolIpv6) return parse_network(inner, kIpv6, at);
  if (headers.protocol != kProtocolEsp || at + kEspBytes > outer.bytes) return;
  headers.is_esp = 1;
  std::memcpy(headers.esp_index, outer.frame + at, 4);
}

}  // namespace

ParsedFrame parse_frame(const uint8_t* frame, uint32_t bytes) {
  ParsedFrame parsed;
  Packet outer{frame, bytes, parsed.headers, parsed};
  parse_ethernet(outer, 0);
  // An IP packet may end before its frame does.
  if (parsed.end != 0) outer.bytes = parsed.end;
  Packet inner{frame, outer.bytes, parsed.headers.inner, parsed.inner};
  parse_tunnel(outer, parsed.headers, inner);
  return parsed;
}

}  // namespace verbatim::engine
