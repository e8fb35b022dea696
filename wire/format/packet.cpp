// SPDX-License-Identifier: MIT
#include "wire/format/packet.h"

namespace verbatim::roce {

namespace {

template <class T>
const uint8_t* take(const uint8_t* at, T& to) {
  T::Layout::read(at, to);
  return at + T::kBytes;
}

template <class T>
uint8_t* put(uint8_t* at, const T& from) {
  from.emit({at, T::kBytes});
  return at + T::kBytes;
}

Refusal check_payload(const OpcodeInfo& info, size_t bytes, unsigned pad) {
  switch (info.payload) {
    case PayloadRule::kAny:
      break;
    case PayloadRule::kNone:
      return bytes + pad == 0 ? Refusal::kNone : Refusal::kPayloadForbidden;
    case PayloadRule::kUnpadded:
      if (pad != 0) return Refusal::kPadInMiddle;
      return bytes != 0 ? Refusal::kNone : Refusal::kPayloadSize;
    case PayloadRule::kEight:
      return bytes == 8 && pad == 0 ? Refusal::kNone : Refusal::kPayloadSize;
    case PayloadRule::kSixteen:
      return bytes == 16 && pad == 0 ? Refusal::kNone : Refusal::kPayloadSize;
  }
  return Refusal::kNone;
}

constexpr uint8_t kZeroes[4] = {};

uint8_t pad_of(size_t payload_bytes) { return static_cast<uint8_t>(-payload_bytes & 3); }

size_t put_all(std::span<uint8_t> out, const Bth& bth, const Headers& rest) {
  const OpcodeInfo& info = info_of(bth.opcode);
  if (!info.known || out.size() < info.header_bytes) return 0;
  uint8_t* at = put(out.data(), bth);
  const unsigned mask = info.headers;
  if (mask & kDcEth) at = put(at, rest.dceth);
  if (mask & kXrcEth) at = put(at, rest.xrceth);
  if (mask & kDeth) at = put(at, rest.deth);
  if (mask & kFeth) at = put(at, rest.feth);
  if (mask & kReth) at = put(at, rest.reth);
  if (mask & kAtomicEth) at = put(at, rest.atomic);
  if (mask & kAeth) at = put(at, rest.aeth);
  if (mask & kAtomicAckEth) at = put(at, rest.atomic_ack);
  if (mask & kImmDt) at = put(at, rest.immediate);
  if (mask & kIeth) at = put(at, rest.invalidate);
  return info.header_bytes;
}

size_t put_padded(std::span<uint8_t> out, const Headers& headers, uint8_t pad) {
  Bth bth = headers.bth;
  bth.pad = pad;
  return put_all(out, bth, headers);
}

}  // namespace

bool Headers::read(std::span<const uint8_t> bytes) {
  const uint8_t* at = take(bytes.data(), bth);
  const OpcodeInfo& of = info();
  const unsigned mask = of.headers;
  if (mask & kDcEth) at = take(at, dceth);
  if (mask & kXrcEth) at = take(at, xrceth);
  if (mask & kDeth) at = take(at, deth);
  if (mask & kFeth) at = take(at, feth);
  if (mask & kReth) at = take(at, reth);
  if (mask & kAtomicEth) at = take(at, atomic);
  if (mask & kAeth) at = take(at, aeth);
  if (mask & kAtomicAckEth) at = take(at, atomic_ack);
  if (mask & kImmDt) at = take(at, immediate);
  if (mask & kIeth) at = take(at, invalidate);
  return of.known;
}

size_t Headers::emit(std::span<uint8_t> out) const { return put_all(out, bth, *this); }

Parsed<Packet> Packet::parse(std::span<const uint8_t> datagram) {
  if (datagram.size() < Bth::kBytes + kIcrcBytes) return Refusal::kTooShort;
  const OpcodeInfo& info = info_of(static_cast<Opcode>(datagram[0]));
  if (!info.known) return Refusal::kUnknownOpcode;
  if (datagram.size() < info.header_bytes + kIcrcBytes) return Refusal::kShorterThanHeaders;
  if (datagram.size() % 4 != 0) return Refusal::kNotWholeWords;
  Parsed<Packet> packet{Packet{}};
  packet->headers.read(datagram);
  if (packet->headers.bth.version != 0) return Refusal::kTransportVersion;
  const size_t padded = datagram.size() - info.header_bytes - kIcrcBytes;
  const unsigned pad = packet->headers.bth.pad;
  if (pad > padded) return Refusal::kPadExceedsPayload;
  if (padded > kPathMtuMax) return Refusal::kTooLong;
  const Refusal refusal = check_payload(info, padded - pad, pad);
  if (refusal != Refusal::kNone) return refusal;
  packet->payload = datagram.subspan(info.header_bytes, padded - pad);
  return packet;
}

Parsed<Packet> Packet::parse(std::span<const uint8_t> datagram, const Envelope& envelope,
                             bool identification_known) {
  return parse(datagram, IcrcFlow(envelope), envelope, identification_known);
}

Parsed<Packet> Packet::parse(std::span<const uint8_t> datagram, const IcrcFlow& flow,
                             const Envelope& envelope, bool identification_known) {
  Parsed<Packet> packet = parse(datagram);
  if (packet && !check_icrc(flow, envelope, datagram, identification_known).right) return Refusal::kWrongIcrc;
  return packet;
}

size_t PacketWriter::seal(std::span<uint8_t> out, const Headers& headers, size_t payload_bytes,
                          uint16_t identification) const {
  const uint8_t pad = pad_of(payload_bytes);
  const size_t covered = bytes_of(headers) + payload_bytes + pad;
  if (out.size() < covered + kIcrcBytes) return 0;
  const size_t header_bytes = put_padded(out, headers, pad);
  if (header_bytes == 0) return 0;
  std::memcpy(out.data() + covered - pad, kZeroes, pad);
  uint32_t state = flow_.begin(out.first(header_bytes), covered + kIcrcBytes, identification);
  state = crc32_update(state, out.data() + header_bytes, covered - header_bytes);
  emit_icrc(state, out.data() + covered);
  return covered + kIcrcBytes;
}

PacketWriter::Gathered PacketWriter::begin(std::span<uint8_t> out, const Headers& headers,
                                           size_t payload_bytes, uint16_t identification) const {
  Gathered packet;
  packet.pad = pad_of(payload_bytes);
  packet.header_bytes = put_padded(out, headers, packet.pad);
  if (packet.header_bytes != 0)
    packet.icrc_state =
        flow_.begin(out.first(packet.header_bytes),
                    packet.header_bytes + payload_bytes + packet.pad + kIcrcBytes, identification);
  return packet;
}

size_t PacketWriter::Gathered::finish(std::span<uint8_t, kTailBytesMax> tail) {
  std::memcpy(tail.data(), kZeroes, pad);
  icrc_state = crc32_update(icrc_state, kZeroes, pad);
  emit_icrc(icrc_state, tail.data() + pad);
  return pad + kIcrcBytes;
}

}  // namespace verbatim::roce
