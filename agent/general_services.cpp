// SPDX-License-Identifier: MIT
#include "agent/general_services.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "wire/format/ip.h"
#include "wire/format/packet.h"
#include "wire/link/udp/outbox.h"
#include "wire/link/udp/port_socket.h"

namespace verbatim::agent {

namespace {

constexpr uint32_t kBatches = 32;
constexpr uint16_t kPkeyMask = 0x7fff;  ///< apart from the kind of membership

/// The management datagram in a packet; empty: it holds none for queue pair 1.
std::span<const uint8_t> mad_in(const roce::Packet& packet) {
  const roce::Headers& headers = packet.headers;
  const bool meant = headers.bth.opcode == roce::opcode(roce::Transport::kUd, roce::Operation::kSendOnly) &&
                     headers.bth.destination == roce::kGeneralServicesQpn &&
                     (headers.bth.pkey & kPkeyMask) == (roce::kDefaultPkey & kPkeyMask) &&
                     headers.deth.qkey == roce::kGeneralServicesQkey &&
                     packet.payload.size() == roce::kMadBytes;
  return meant ? packet.payload : std::span<const uint8_t>{};
}

void unpack(const wire::udp::Arrival& from, wire::tap::Tap& tap,
            const std::function<void(const cm::Arrival&)>& arrived) {
  for (size_t at = 0; at < from.bytes.size(); at += from.packet_bytes) {
    const auto number = static_cast<uint16_t>(at / from.packet_bytes);
    const roce::Envelope envelope{from.source,     from.destination, from.source_port,
                                  roce::kRocePort, number,           true};
    const auto datagram = from.bytes.subspan(at, std::min(from.packet_bytes, from.bytes.size() - at));
    if (tap.captures()) tap.record_arrived({envelope, from.traffic_class, from.hop_limit, 0}, datagram);
    const auto packet = roce::Packet::parse(datagram, envelope, false);
    if (!packet) continue;
    if (const auto mad = mad_in(*packet); !mad.empty()) arrived({from.destination, from.source, mad});
  }
}

}  // namespace

GeneralServices::~GeneralServices() {
  if (sending_ >= 0) close(sending_);
}

bool GeneralServices::open() {
  if (sending_ >= 0) return true;
  const Expected<int> opened = wire::udp::open_sending_socket();
  if (!opened) return false;
  sockaddr_in6 bound{};
  socklen_t length = sizeof bound;
  getsockname(*opened, reinterpret_cast<sockaddr*>(&bound), &length);
  port_ = ntohs(bound.sin6_port);
  sending_ = *opened;
  return true;
}

wire::Segment GeneralServices::next_segment(std::span<const uint8_t> mad) {
  wire::Segment segment;
  segment.operation = wire::Operation::kSend;
  segment.transport = wire::Transport::kUd;
  segment.flags = wire::kFirst | wire::kLast;
  segment.dest_qpn = segment.src_qpn = roce::kGeneralServicesQpn;
  segment.qkey = roce::kGeneralServicesQkey;
  segment.psn = psn_;
  segment.length = static_cast<uint32_t>(mad.size());
  psn_ = wire::psn_add(psn_, 1);
  return segment;
}

void GeneralServices::note(const Gid& local, const Gid& remote, std::span<const uint8_t> mad) {
  if (!tap_.captures()) return;
  wire::Segment segment = next_segment(mad);
  segment.gid_type = GidType::kRoceV2;
  segment.source_gid = local;
  segment.dest_gid = remote;
  segment.flow_label = segment.traffic_class = segment.hop_limit = 0;
  const wire::Piece piece{const_cast<uint8_t*>(mad.data()), mad.size()};
  tap_.record(segment, &piece, 1);
}

void GeneralServices::send(const Gid& local, uint32_t interface, const Gid& remote,
                           std::span<const uint8_t> mad) {
  if (!open()) return;
  const wire::Segment segment = next_segment(mad);
  wire::udp::Way way;
  way.socket = sending_;
  way.port = port_;
  way.scope = interface;
  way.source = local;
  way.destination = remote;
  way.tap = &tap_;
  const wire::Piece piece{const_cast<uint8_t*>(mad.data()), mad.size()};
  (void)wire::udp::Outbox::mine().send(nullptr, way, segment, &piece, false, false);
}

void GeneralServices::receive(int socket, const std::function<void(const cm::Arrival&)>& arrived) {
  if (!inbox_) inbox_ = std::make_unique<wire::udp::Inbox>();
  for (uint32_t batch = 0; batch < kBatches; batch++) {
    bool more = false;
    const uint32_t count = inbox_->receive(socket, more);
    wire::udp::Arrival from;
    for (uint32_t i = 0; i < count; i++)
      if (inbox_->read(i, from)) unpack(from, tap_, arrived);
    if (!more) break;
  }
}

}  // namespace verbatim::agent
