// SPDX-License-Identifier: MIT
#include "engine/frame_checksums.h"

namespace verbatim::engine {

namespace {

constexpr uint32_t kIpv4ChecksumAt = 10, kTcpChecksumAt = 16, kUdpChecksumAt = 6;

uint64_t sum(const uint8_t* bytes, uint32_t length) {
  uint64_t total = 0;
  for (uint32_t i = 0; i + 1 < length; i += 2) total += static_cast<uint32_t>(bytes[i]) << 8 | bytes[i + 1];
  if (length % 2 != 0) total += static_cast<uint32_t>(bytes[length - 1]) << 8;
  return total;
}

uint32_t fold(uint64_t total) {
  while (total >> 16 != 0) total = (total & 0xffff) + (total >> 16);
  return static_cast<uint32_t>(total);
}

void put(uint8_t* at, uint32_t checksum) {
  at[0] = static_cast<uint8_t>(checksum >> 8);
  at[1] = static_cast<uint8_t>(checksum);
}

uint32_t network_sum(const uint8_t* frame, const PacketPlaces& places) {
  const uint8_t* ip = frame + places.network_at;  // all of it is there
  return fold(sum(ip, (ip[0] & 0xfu) * 4));
}

/// With the pseudo header.
uint32_t transport_sum(const uint8_t* frame, const PacketHeaders& headers, const PacketPlaces& places) {
  const uint32_t address = headers.network == 4 ? 4 : 16, length = places.end - places.transport_at;
  return fold(sum(headers.source_ip, address) + sum(headers.destination_ip, address) + headers.transport +
              length + sum(frame + places.transport_at, length));
}

bool has_sum(const PacketPlaces& places) { return places.transport_at != 0 && !places.is_fragment; }

}  // namespace

void write_checksums(uint8_t* frame, uint32_t bytes, uint8_t wanted) {
  const ParsedFrame parsed = parse_frame(frame, bytes);
  if ((wanted & kNetworkChecksum) != 0 && parsed.headers.network == 4) {
    uint8_t* at = frame + parsed.network_at + kIpv4ChecksumAt;
    put(at, 0);
    put(at, ~network_sum(frame, parsed) & 0xffff);
  }
  if ((wanted & kTransportChecksum) == 0 || !has_sum(parsed)) return;
  const bool udp = parsed.headers.transport == kProtocolUdp;
  uint8_t* at = frame + parsed.transport_at + (udp ? kUdpChecksumAt : kTcpChecksumAt);
  put(at, 0);
  const uint32_t checksum = ~transport_sum(frame, parsed.headers, parsed) & 0xffff;
  put(at, udp && checksum == 0 ? 0xffff : checksum);  // 0 says that a UDP header has none
}

uint8_t right_checksums(const uint8_t* frame, const PacketHeaders& headers, const PacketPlaces& places) {
  uint8_t right = 0;
  if (headers.network == 6 || (headers.network == 4 && network_sum(frame, places) == 0xffff))
    right |= kNetworkChecksum;
  if (!has_sum(places)) return right;
  const uint8_t* udp_sum = frame + places.transport_at + kUdpChecksumAt;
  const bool without =
      headers.network == 4 && headers.transport == kProtocolUdp && udp_sum[0] == 0 && udp_sum[1] == 0;
  if (without || transport_sum(frame, headers, places) == 0xffff) right |= kTransportChecksum;
  return right;
}

uint8_t right_tunnel_checksums(const uint8_t* frame, const ParsedFrame& parsed, uint8_t outer) {
  if (parsed.transport_at == 0) outer |= kTransportChecksum;
  return outer & right_checksums(frame, parsed.headers.inner, parsed.inner);
}

}  // namespace verbatim::engine
