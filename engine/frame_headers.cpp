// SPDX-License-Identifier: MIT
#include "engine/frame_headers.h"

#include <algorithm>
#include <cstring>

namespace verbatim::engine {

namespace {

constexpr uint32_t kVlan = 0x8100, kServiceVlan = 0x88a8, kIpv4 = 0x0800, kIpv6 = 0x86dd;
constexpr uint32_t kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8, kTcpBytes = 20, kVlanBytes = 4;
constexpr uint32_t kFragmentBytes = 8;
constexpr int kTagsMax = 2;
constexpr int kExtensionsMax = 8;

enum Extension : uint8_t { kHopByHop = 0, kRouting = 43, kFragment = 44, kDestination = 60 };

uint32_t get16(const uint8_t* at) { return static_cast<uint32_t>(at[0]) << 8 | at[1]; }

void parse_transport(const uint8_t* frame, uint32_t at, ParsedFrame& parsed) {
  FrameHeaders& headers = parsed.headers;
  const bool tcp = headers.protocol == kProtocolTcp;
  if (!tcp && headers.protocol != kProtocolUdp) return;
  if (at + (tcp ? kTcpBytes : kUdpBytes) > parsed.end) return;
  headers.transport = headers.protocol;
  parsed.transport_at = at;
  std::memcpy(headers.source_port, frame + at, 2);
  std::memcpy(headers.destination_port, frame + at + 2, 2);
}

void parse_ipv4(const uint8_t* frame, uint32_t bytes, uint32_t at, ParsedFrame& parsed) {
  FrameHeaders& headers = parsed.headers;
  const uint8_t* ip = frame + at;
  if (at + kIpv4Bytes > bytes || ip[0] >> 4 != 4) return;
  const uint32_t head = (ip[0] & 0xfu) * 4, total = get16(ip + 2);
  if (head < kIpv4Bytes || at + head > bytes) return;
  headers.network = 4;
  parsed.network_at = at;
  parsed.end = std::min(at + total, bytes);
  std::memcpy(headers.source_ip, ip + 12, 4);
  std::memcpy(headers.destination_ip, ip + 16, 4);
  headers.traffic_class = ip[1];
  headers.hop_limit = ip[8];
  headers.protocol = ip[9];
  const uint32_t fragment = get16(ip + 6);
  parsed.is_fragment = (fragment & 0x3fff) != 0;  // its offset, or more follow
  if ((fragment & 0x1fff) == 0) parse_transport(frame, at + head, parsed);
}

void parse_ipv6(const uint8_t* frame, uint32_t bytes, uint32_t at, ParsedFrame& parsed) {
  FrameHeaders& headers = parsed.headers;
  const uint8_t* ip = frame + at;
  if (at + kIpv6Bytes > bytes || ip[0] >> 4 != 6) return;
  const uint32_t end = std::min(at + kIpv6Bytes + get16(ip + 4), bytes);
  headers.network = 6;
  parsed.network_at = at;
  parsed.end = end;
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
      parsed.is_fragment = true;
      if ((get16(frame + at + 2) & 0xfff8) != 0) return;
      at += kFragmentBytes;
    } else {
      at += (frame[at + 1] + 1u) * 8;
    }
  }
  parse_transport(frame, at, parsed);
}

}  // namespace

ParsedFrame parse_frame(const uint8_t* frame, uint32_t bytes) {
  ParsedFrame parsed;
  FrameHeaders& headers = parsed.headers;
  std::memcpy(headers.destination_mac, frame, 6);
  std::memcpy(headers.source_mac, frame + 6, 6);
  uint32_t at = 12;
  for (int i = 0; i < kTagsMax; i++) {
    const uint32_t type = get16(frame + at);
    if ((type != kVlan && type != kServiceVlan) || at + kVlanBytes + 2 > bytes) break;
    if (!headers.is_tagged) std::memcpy(headers.vlan, frame + at + 2, 2);
    headers.is_tagged = 1;
    at += kVlanBytes;
  }
  std::memcpy(headers.ether_type, frame + at, 2);
  const uint32_t type = get16(frame + at);
  if (type == kIpv4) parse_ipv4(frame, bytes, at + 2, parsed);
  if (type == kIpv6) parse_ipv6(frame, bytes, at + 2, parsed);
  return parsed;
}

}  // namespace verbatim::engine
