// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim::engine {

/// Most bytes that one request has cut into frames.
inline constexpr uint32_t kSegmentedBytesMax = 1u << 18;

/// Which part of a large send a frame is.
struct FrameSegment {
  uint32_t header_bytes;  ///< at the beginning of every frame, through TCP
  uint32_t index;         ///< 0 first
  uint32_t offset;        ///< of its payload in all of it
  bool last;
};

/// Makes the headers of a frame, copies of those that the request gave, fit its own part of the payload:
/// lengths, IPv4's identification, TCP's sequence number and flags. Checksums are not computed.
void number_segment(uint8_t* frame, uint32_t bytes, const FrameSegment& segment);

}  // namespace verbatim::engine
