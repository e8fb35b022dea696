// SPDX-License-Identifier: MIT
#include "engine/grh.h"

#include <cstring>

namespace verbatim::engine {

namespace {

constexpr uint8_t kUdp = 17;
constexpr uint8_t kNextHeaderBth = 0x1b;
constexpr uint32_t kUdpBthDethIcrc = 8 + 12 + 8 + 4;
constexpr uint32_t kBthDethIcrc = 12 + 8 + 4;

void put16(uint8_t* at, uint32_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

void write_ipv4(const wire::Segment& segment, uint8_t* out) {
  out[0] = 0x45;
  out[1] = segment.traffic_class;
  put16(out + 2, 20 + kUdpBthDethIcrc + segment.length);
  out[6] = 0x40;  // don't fragment
  out[8] = segment.hop_limit ? segment.hop_limit : 64;
  out[9] = kUdp;
  std::memcpy(out + 12, segment.source_gid.bytes.data() + 12, 4);
  std::memcpy(out + 16, segment.dest_gid.bytes.data() + 12, 4);
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<uint32_t>(out[i]) << 8 | out[i + 1];
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  put16(out + 10, ~sum & 0xffff);
}

}  // namespace

void write_grh(const wire::Segment& segment, uint8_t out[kGrhBytes]) {
  std::memset(out, 0, kGrhBytes);
  const bool v2 = segment.gid_type == GidType::kRoceV2;
  if (v2 && segment.dest_gid.is_ipv4_mapped()) return write_ipv4(segment, out + 20);
  out[0] = static_cast<uint8_t>(0x60 | segment.traffic_class >> 4);
  out[1] = static_cast<uint8_t>(segment.traffic_class << 4 | (segment.flow_label >> 16 & 0xf));
  put16(out + 2, segment.flow_label & 0xffff);
  put16(out + 4, (v2 ? kUdpBthDethIcrc : kBthDethIcrc) + segment.length);
  out[6] = v2 ? kUdp : kNextHeaderBth;
  out[7] = segment.hop_limit ? segment.hop_limit : 64;
  std::memcpy(out + 8, segment.source_gid.bytes.data(), 16);
  std::memcpy(out + 24, segment.dest_gid.bytes.data(), 16);
}

}  // namespace verbatim::engine
