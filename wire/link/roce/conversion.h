// SPDX-License-Identifier: MIT
#pragma once

// Between segments and packets of RoCEv2: what transports say, and what is on an Ethernet wire. Without state
// and without memory of what came before; links and tests do the rest.

#include "wire/format/packet.h"
#include "wire/link/segment.h"

namespace verbatim::wire {

/// The packets that a segment is on the wire, in order:
///
///   PacketsOf packets(segment);
///   while (packets.next()) writer.begin(out, packets.headers(), packets.bytes());
///
/// The segment stays as it is meanwhile.
class PacketsOf {
 public:
  explicit PacketsOf(const Segment& segment);

  /// Why there are none, in words; nullptr: there are some. What only engines on one host say to each
  /// other has no form on the wire.
  const char* obstacle() const { return obstacle_; }
  /// How many there are.
  uint32_t count() const { return count_; }
  /// Moves on to the first or the next one; false: there is none.
  bool next();

  /// Of this packet, all but the pad count.
  const roce::Headers& headers() const { return headers_; }
  /// Where its payload begins in the segment's, and its length.
  uint32_t offset() const { return offset_; }
  uint32_t bytes() const { return bytes_; }
  /// Zeroes that it carries instead.
  uint32_t filler_bytes() const { return segment_.operation == Operation::kCongestion ? 16 : 0; }

 private:
  const char* find_obstacle() const;
  void fill();

  const Segment& segment_;
  const char* obstacle_;
  uint32_t count_ = 0, index_ = 0, offset_ = 0, bytes_ = 0, most_ = 0;
  roce::Headers headers_;
};

/// Makes the segment that a packet is, apart from the addresses that it came with. False: it is nothing that
/// an engine knows (an opcode without a transport here, a reserved syndrome), and the segment is in no
/// particular state.
bool segment_of(const roce::Packet& packet, Segment& segment);

}  // namespace verbatim::wire
