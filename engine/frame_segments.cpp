// SPDX-License-Identifier: MIT
#include "engine/frame_segments.h"

#include "engine/frame_headers.h"

namespace verbatim::engine {

namespace {

constexpr uint8_t kFin = 0x01, kPush = 0x08, kWindowReduced = 0x80;
constexpr uint32_t kIpv6Bytes = 40;

uint32_t get(const uint8_t* at, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; i++) value = value << 8 | at[i];
  return value;
}

void put(uint8_t* at, int bytes, uint32_t value) {
  for (int i = bytes - 1; i >= 0; i--, value >>= 8) at[i] = static_cast<uint8_t>(value);
}

void number_network(uint8_t* ip, int version, uint32_t bytes, uint32_t index) {
  if (version == 6) return put(ip + 4, 2, bytes - kIpv6Bytes);
  put(ip + 2, 2, bytes);
  put(ip + 4, 2, get(ip + 4, 2) + index);
}

void number_tcp(uint8_t* tcp, const FrameSegment& segment) {
  put(tcp + 4, 4, get(tcp + 4, 4) + segment.offset);
  // What ends a stream stands in its last part, an answer to congestion in the first.
  if (!segment.last) tcp[13] &= static_cast<uint8_t>(~(kFin | kPush));
  if (segment.index != 0) tcp[13] &= static_cast<uint8_t>(~kWindowReduced);
}

}  // namespace

void number_segment(uint8_t* frame, uint32_t bytes, const FrameSegment& segment) {
  const ParsedFrame plain = parse_frame(frame, bytes);
  if (plain.network_at == 0) return;
  number_network(frame + plain.network_at, plain.headers.network, bytes - plain.network_at, segment.index);
  // Before its length was right, the packet may have seemed to end in front of its ports.
  const ParsedFrame parsed = parse_frame(frame, bytes);
  if (parsed.transport_at == 0) return;
  uint8_t* transport = frame + parsed.transport_at;
  if (parsed.headers.transport == kProtocolTcp)
    number_tcp(transport, segment);
  else
    put(transport + 4, 2, bytes - parsed.transport_at);
}

}  // namespace verbatim::engine
