// SPDX-License-Identifier: MIT
#include "wire/format/icrc.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "wire/format/crc32.h"
#include "wire/format/crc32_tables.h"
#include "wire/format/headers.h"
#include "wire/format/ip.h"

namespace verbatim::roce {

namespace {

constexpr size_t kBthMaskedByte = 4;  // FECN, BECN and six reserved bits
constexpr size_t kIpv4LengthAt = 2, kIpv6LengthAt = 4, kIdentificationAt = 4, kUdpLengthAt = 4;

/// The state after the eight bytes of ones.
constexpr uint32_t start_state() {
  uint32_t state = kCrc32Start;
  for (int byte = 0; byte < 8; byte++) {
    state ^= 0xff;
    for (int bit = 0; bit < 8; bit++) state = crc32::times_x(state);
  }
  return state;
}

void put16(uint8_t* to, size_t number) {
  to[0] = static_cast<uint8_t>(number >> 8);
  to[1] = static_cast<uint8_t>(number);
}

size_t masked_ipv4(const Envelope& envelope, std::span<uint8_t> out) {
  Ipv4 ip;
  ip.traffic_class = 0xff;
  ip.hop_limit = 0xff;
  ip.checksum = 0xffff;
  ip.identification = envelope.identification;
  ip.dont_fragment = envelope.dont_fragment;
  std::copy_n(envelope.source.bytes.begin() + 12, 4, ip.source.begin());
  std::copy_n(envelope.destination.bytes.begin() + 12, 4, ip.destination.begin());
  return ip.emit(out);
}

size_t masked_ipv6(const Envelope& envelope, std::span<uint8_t> out) {
  Ipv6 ip;
  ip.traffic_class = 0xff;
  ip.flow_label = 0xfffff;
  ip.hop_limit = 0xff;
  ip.source = envelope.source;
  ip.destination = envelope.destination;
  return ip.emit(out);
}

// Longest datagram whose identification can be found out: headers and the largest path MTU.
constexpr size_t kDatagramBytesMax = IcrcFlow::kHeadersMax + 4096 + kIcrcBytes;
constexpr size_t kBytesBehindIdentification = Ipv4::kBytes - kIdentificationAt + Udp::kBytes - kIcrcBytes;

/// By the number of words, what takes the effect that a bit had on the CRC back to before so many zero bytes.
struct Backwards {
  static constexpr size_t kWords = (kDatagramBytesMax + kBytesBehindIdentification) / 4 + 1;
  std::array<uint32_t, kWords> over{};

  constexpr Backwards() {
    uint32_t power = crc32::power_of_x(0);
    for (uint32_t& entry : over) {
      entry = power;
      for (int bit = 0; bit < 32; bit++) power = crc32::over_x(power);
    }
  }
};

constexpr Backwards kBackwards;

/// An identification and DF bit which, changed in the headers, change the final state by `difference`.
IcrcCheck find_identification(const Envelope& envelope, uint32_t difference, size_t datagram_bytes) {
  if (datagram_bytes > kDatagramBytesMax || datagram_bytes % 4 != 0) return {};
  const size_t words = (datagram_bytes + kBytesBehindIdentification) / 4;
  const uint32_t changed = crc32::multiply(difference, kBackwards.over[words]);
  // The word of the header, first byte lowest: identification, flags, fragment offset.
  constexpr uint32_t kDontFragment = 0x400000;
  if ((changed & ~(0xffff | kDontFragment)) != 0) return {};
  const auto flipped = __builtin_bswap16(static_cast<uint16_t>(changed));
  return {true, static_cast<uint16_t>(envelope.identification ^ flipped),
          envelope.dont_fragment != ((changed & kDontFragment) != 0)};
}

}  // namespace

IcrcFlow::IcrcFlow(const Envelope& envelope) {
  const std::span<uint8_t> image(image_);
  size_t bytes = envelope.is_ipv4() ? masked_ipv4(envelope, image) : masked_ipv6(envelope, image);
  bytes += Udp{envelope.source_port, envelope.destination_port, 0, 0xffff}.emit(image.subspan(bytes));
  bytes_ = static_cast<uint8_t>(bytes);
}

uint32_t IcrcFlow::begin(std::span<const uint8_t> headers, size_t datagram_bytes,
                         uint16_t identification) const {
  alignas(16) uint8_t masked[sizeof image_ + kHeadersMax];
  std::memcpy(masked, image_, sizeof image_);
  const size_t header_bytes = std::min(headers.size(), kHeadersMax);
  std::memcpy(masked + bytes_, headers.data(), header_bytes);
  masked[bytes_ + kBthMaskedByte] = 0xff;
  const size_t udp_bytes = datagram_bytes + Udp::kBytes;
  put16(masked + bytes_ - Udp::kBytes + kUdpLengthAt, udp_bytes);
  if (bytes_ == Ipv4::kBytes + Udp::kBytes) {
    put16(masked + kIpv4LengthAt, udp_bytes + Ipv4::kBytes);
    put16(masked + kIdentificationAt, identification);
  } else {
    put16(masked + kIpv6LengthAt, udp_bytes);
  }
  constexpr uint32_t kStart = start_state();
  return crc32_update(kStart, masked, bytes_ + header_bytes);
}

void emit_icrc(uint32_t state, uint8_t* out) {
  state = ~state;
  for (int byte = 0; byte < 4; byte++) out[byte] = static_cast<uint8_t>(state >> byte * 8);
}

IcrcCheck check_icrc(const Envelope& envelope, std::span<const uint8_t> datagram, bool identification_known) {
  return check_icrc(IcrcFlow(envelope), envelope, datagram, identification_known);
}

IcrcCheck check_icrc(const IcrcFlow& flow, const Envelope& envelope, std::span<const uint8_t> datagram,
                     bool identification_known) {
  if (datagram.size() < Bth::kBytes + kIcrcBytes) return {};
  const std::span<const uint8_t> covered = datagram.first(datagram.size() - kIcrcBytes);
  // As much as fits at once, wherever the headers end.
  const size_t first = std::min(covered.size(), IcrcFlow::kHeadersMax);
  uint32_t state = flow.begin(covered.first(first), datagram.size(), envelope.identification);
  if (covered.size() > first) state = crc32_update(state, covered.subspan(first));
  uint32_t received = 0;
  for (size_t byte = 0; byte < kIcrcBytes; byte++)
    received |= static_cast<uint32_t>(datagram[covered.size() + byte]) << byte * 8;
  const uint32_t difference = ~received ^ state;
  if (difference == 0) return {true, envelope.identification, envelope.dont_fragment};
  if (identification_known || !envelope.is_ipv4()) return {};
  return find_identification(envelope, difference, datagram.size());
}

}  // namespace verbatim::roce
