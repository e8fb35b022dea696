// SPDX-License-Identifier: MIT
#pragma once

// The invariant CRC at the end of each packet. It covers IP, UDP and everything from the BTH on, with the
// fields that change on the way taken as ones: of IPv4 TTL, TOS and checksum, of IPv6 hop limit, traffic
// class and flow label, the UDP checksum, and of the BTH the byte with FECN and BECN. In front of it all
// stand 8 bytes of ones, where InfiniBand has a local route header.
//
// The kernel writes the IP headers of a UDP socket, so that a sender has to know what it will write: for
// IPv4, an identification of 0 in datagrams that forbid fragmentation, counting up from there through the
// segments of one call with UDP_SEGMENT. A receiver does not see them at all. Other stacks (Linux rxe) put
// numbers of their own choice there, which `check_icrc` finds out from the ICRC itself.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/gid.h"

namespace verbatim::roce {

constexpr size_t kIcrcBytes = 4;

/// What the ICRC covers besides the datagram. Both addresses are IPv4-mapped or none is.
struct Envelope {
  Gid source, destination;
  uint16_t source_port = 0, destination_port = 4791;
  uint16_t identification = 0;  ///< IPv4 only, as is
  bool dont_fragment = true;

  bool is_ipv4() const { return source.is_ipv4_mapped(); }
  friend bool operator==(const Envelope&, const Envelope&) = default;
};

/// The headers of a flow, masked, ready for the ICRC of many packets.
class IcrcFlow {
 public:
  explicit IcrcFlow(const Envelope& envelope);

  /// The state of the CRC (crc32.h) over IP, UDP, BTH and extended headers; the rest is payload and pad. Of
  /// the flow's envelope only the identification may differ.
  ///   headers         from the BTH on, at most kHeadersMax bytes, of which the BTH is masked
  ///   datagram_bytes  from the BTH to the ICRC, both included
  uint32_t begin(std::span<const uint8_t> headers, size_t datagram_bytes, uint16_t identification) const;

  static constexpr size_t kHeadersMax = 64;

 private:
  alignas(16) uint8_t image_[48] = {};  ///< IP and UDP, so many bytes:
  uint8_t bytes_ = 0;
};

/// Writes the ICRC of a finished state.
void emit_icrc(uint32_t state, uint8_t* out);

struct IcrcCheck {
  bool right = false;
  uint16_t identification = 0;  ///< with which it is
  bool dont_fragment = true;
};

/// Checks the last four bytes of a datagram, BTH first.
///   identification_known  false: where the envelope's identification does not fit, another one may, found
///   from
///                         the ICRC; of its 32 bits 15 are then left to find damage with. IPv4 only.
IcrcCheck check_icrc(const Envelope& envelope, std::span<const uint8_t> datagram, bool identification_known);
/// The same for one of many of a flow.
IcrcCheck check_icrc(const IcrcFlow& flow, const Envelope& envelope, std::span<const uint8_t> datagram,
                     bool identification_known);

}  // namespace verbatim::roce
