// SPDX-License-Identifier: MIT
#pragma once

// The headers of IP and UDP, as values. `parse` and `emit` as in headers.h; what they mean to each other is
// checked by datagram.h.

#include "base/gid.h"
#include "wire/format/layout.h"

namespace verbatim::roce {

constexpr uint16_t kRocePort = 4791;
constexpr uint8_t kUdpProtocol = 17;
constexpr uint8_t kGrhNextHeader = 0x1b;  ///< what a GRH on InfiniBand has in its place

struct Ipv4 {
  uint8_t version = 4;
  uint8_t header_words = 5;
  uint8_t traffic_class = 0;  ///< DSCP and ECN
  uint16_t length = 0;        ///< of header and payload
  uint16_t identification = 0;
  bool dont_fragment = true;
  bool more_fragments = false;
  uint16_t fragment_offset = 0;
  uint8_t hop_limit = 64;
  uint8_t protocol = kUdpProtocol;
  uint16_t checksum = 0;
  std::array<uint8_t, 4> source{}, destination{};

  using Layout =
      roce::Layout<20, At<&Ipv4::version, 0, 4>, At<&Ipv4::header_words, 4, 4>,
                   At<&Ipv4::traffic_class, 8, 8>, At<&Ipv4::length, 16, 16>,
                   At<&Ipv4::identification, 32, 16>, At<&Ipv4::dont_fragment, 49, 1>,
                   At<&Ipv4::more_fragments, 50, 1>, At<&Ipv4::fragment_offset, 51, 13>,
                   At<&Ipv4::hop_limit, 64, 8>, At<&Ipv4::protocol, 72, 8>, At<&Ipv4::checksum, 80, 16>,
                   Bytes<&Ipv4::source, 12>, Bytes<&Ipv4::destination, 16>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<Ipv4> parse(std::span<const uint8_t> bytes) { return Layout::parse<Ipv4>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  /// The checksum that belongs to the other fields.
  uint16_t right_checksum() const;
  friend bool operator==(const Ipv4&, const Ipv4&) = default;
};

struct Ipv6 {
  uint8_t version = 6;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;
  uint16_t length = 0;  ///< of what follows
  uint8_t next_header = kUdpProtocol;
  uint8_t hop_limit = 64;
  Gid source, destination;

  using Layout =
      roce::Layout<40, At<&Ipv6::version, 0, 4>, At<&Ipv6::traffic_class, 4, 8>,
                   At<&Ipv6::flow_label, 12, 20>, At<&Ipv6::length, 32, 16>, At<&Ipv6::next_header, 48, 8>,
                   At<&Ipv6::hop_limit, 56, 8>, Bytes<&Ipv6::source, 8>, Bytes<&Ipv6::destination, 24>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<Ipv6> parse(std::span<const uint8_t> bytes) { return Layout::parse<Ipv6>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const Ipv6&, const Ipv6&) = default;
};

/// The global route header has the shape of an IPv6 header. In front of a received datagram's payload, an
/// IPv4 header takes the second half of its 40 bytes.
using Grh = Ipv6;
constexpr size_t kGrhIpv4Offset = Grh::kBytes - Ipv4::kBytes;

struct Udp {
  uint16_t source_port = 0, destination_port = kRocePort;
  uint16_t length = 0;  ///< of header and payload
  uint16_t checksum = 0;

  using Layout = roce::Layout<8, At<&Udp::source_port, 0, 16>, At<&Udp::destination_port, 16, 16>,
                              At<&Udp::length, 32, 16>, At<&Udp::checksum, 48, 16>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<Udp> parse(std::span<const uint8_t> bytes) { return Layout::parse<Udp>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const Udp&, const Udp&) = default;
};

}  // namespace verbatim::roce
