// SPDX-License-Identifier: MIT
#include "wire/format/datagram.h"

#include <algorithm>

namespace verbatim::roce {

namespace {

Gid mapped(const std::array<uint8_t, 4>& address) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  std::copy(address.begin(), address.end(), gid.bytes.begin() + 12);
  return gid;
}

/// Fills in what the header says and leaves what follows it in `payload`.
Refusal take_ipv4(std::span<const uint8_t> packet, Datagram& to) {
  const Parsed<Ipv4> ip = Ipv4::parse(packet);
  if (!ip) return ip.refusal();
  if (ip->header_words != 5) return Refusal::kIpOptions;
  if (ip->length < Ipv4::kBytes || ip->length > packet.size()) return Refusal::kIpLength;
  if (ip->checksum != ip->right_checksum()) return Refusal::kIpChecksum;
  if (ip->more_fragments || ip->fragment_offset != 0) return Refusal::kFragment;
  if (ip->protocol != kUdpProtocol) return Refusal::kNotUdp;
  to.envelope = {mapped(ip->source), mapped(ip->destination), 0, 0, ip->identification, ip->dont_fragment};
  to.traffic_class = ip->traffic_class;
  to.hop_limit = ip->hop_limit;
  to.payload = packet.first(ip->length).subspan(Ipv4::kBytes);
  return Refusal::kNone;
}

Refusal take_ipv6(std::span<const uint8_t> packet, Datagram& to) {
  const Parsed<Ipv6> ip = Ipv6::parse(packet);
  if (!ip) return ip.refusal();
  if (ip->length > packet.size() - Ipv6::kBytes) return Refusal::kIpLength;
  if (ip->next_header != kUdpProtocol) return Refusal::kNotUdp;
  // An IPv4-mapped address has no place on a wire and would be taken for IPv4 from here on.
  if (ip->source.is_ipv4_mapped() || ip->destination.is_ipv4_mapped()) return Refusal::kIpVersion;
  to.envelope = {ip->source, ip->destination, 0, 0, 0, true};
  to.traffic_class = ip->traffic_class;
  to.hop_limit = ip->hop_limit;
  to.flow_label = ip->flow_label;
  to.payload = packet.subspan(Ipv6::kBytes, ip->length);
  return Refusal::kNone;
}

}  // namespace

uint16_t Ipv4::right_checksum() const {
  Ipv4 blank = *this;
  blank.checksum = 0;
  uint8_t bytes[kBytes];
  blank.emit(bytes);
  uint32_t sum = 0;
  for (size_t i = 0; i < kBytes; i += 2) sum += static_cast<uint32_t>(bytes[i] << 8 | bytes[i + 1]);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~(sum + (sum >> 16)));
}

Parsed<Datagram> Datagram::parse(std::span<const uint8_t> packet) {
  if (packet.empty()) return Refusal::kTooShort;
  const unsigned version = packet[0] >> 4;
  if (version != 4 && version != 6) return Refusal::kIpVersion;
  Datagram datagram;
  const Refusal refusal = version == 4 ? take_ipv4(packet, datagram) : take_ipv6(packet, datagram);
  if (refusal != Refusal::kNone) return refusal;
  const Parsed<Udp> udp = Udp::parse(datagram.payload);
  if (!udp) return udp.refusal();
  if (udp->length != datagram.payload.size()) return Refusal::kUdpLength;
  datagram.envelope.source_port = udp->source_port;
  datagram.envelope.destination_port = udp->destination_port;
  datagram.udp_checksum = udp->checksum;
  datagram.payload = datagram.payload.subspan(Udp::kBytes);
  return datagram;
}

size_t Datagram::emit_headers(std::span<uint8_t> out) const {
  if (out.size() < header_bytes()) return 0;
  const auto udp_bytes = static_cast<uint16_t>(Udp::kBytes + payload.size());
  size_t bytes;
  if (envelope.is_ipv4()) {
    Ipv4 ip;
    ip.traffic_class = traffic_class;
    ip.length = static_cast<uint16_t>(Ipv4::kBytes + udp_bytes);
    ip.identification = envelope.identification;
    ip.dont_fragment = envelope.dont_fragment;
    ip.hop_limit = hop_limit;
    std::copy_n(envelope.source.bytes.begin() + 12, 4, ip.source.begin());
    std::copy_n(envelope.destination.bytes.begin() + 12, 4, ip.destination.begin());
    ip.checksum = ip.right_checksum();
    bytes = ip.emit(out);
  } else {
    bytes = Ipv6{6,         traffic_class,   flow_label,          udp_bytes, kUdpProtocol,
                 hop_limit, envelope.source, envelope.destination}
                .emit(out);
  }
  return bytes + Udp{envelope.source_port, envelope.destination_port, udp_bytes, udp_checksum}.emit(
                     out.subspan(bytes));
}

}  // namespace verbatim::roce
