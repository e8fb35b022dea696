// SPDX-License-Identifier: MIT
#pragma once

#include "engine/frame_headers.h"

namespace verbatim::engine {

/// What a work request asks the device to compute in its frame.
inline constexpr uint8_t kNetworkChecksum = 1, kTransportChecksum = 2;

/// Puts the checksums in `wanted` into the IPv4 header, and into the TCP or UDP header, whatever lies there.
/// Headers that a frame does not have, and those of fragments, are left alone.
void write_checksums(uint8_t* frame, uint32_t bytes, uint8_t wanted);

/// Which checksums of a packet in a frame are right. IPv6 headers have none, which counts as right.
uint8_t right_checksums(const uint8_t* frame, const PacketHeaders& headers, const PacketPlaces& places);
/// Of the outer packet.
inline uint8_t right_checksums(const uint8_t* frame, const ParsedFrame& parsed) {
  return right_checksums(frame, parsed.headers, parsed);
}
/// Of both packets of a tunnel, in each of which they have to be right. The outer one may have no TCP or UDP
/// header. `outer`: which of its are.
uint8_t right_tunnel_checksums(const uint8_t* frame, const ParsedFrame& parsed, uint8_t outer);

}  // namespace verbatim::engine
