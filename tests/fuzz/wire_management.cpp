// SPDX-License-Identifier: MIT
#include "tests/fuzz/wire_management.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "wire/format/cm_service.h"
#include "wire/format/datagram.h"

namespace verbatim::fuzz {

namespace {

using namespace roce::cm;

constexpr size_t kHeardMax = 64;

/// The message in an IP packet, if it holds one.
std::optional<Message> message_in(std::span<const uint8_t> ip_packet) {
  const auto datagram = roce::Datagram::parse(ip_packet);
  if (!datagram || datagram->envelope.destination_port != roce::kRocePort) return std::nullopt;
  const auto packet = roce::Packet::parse(datagram->payload);
  if (!packet || packet->headers.bth.destination != roce::kGeneralServicesQpn) return std::nullopt;
  const auto message = Message::parse(packet->payload);
  return message ? std::optional<Message>(*message) : std::nullopt;
}

template <class Body>
void address_service(Body& body, PortSpace space, const Gid& from) {
  body.service_id = service_id(space, kListenPort);
  ServiceHeader header;
  header.source_port = 1234;
  header.source = from;
  header.destination = host(kVictim);
  header.emit(body.private_data);
}

/// The id that the sender of a message has given its end; 0: it has none.
uint32_t own_id(const Message& message) {
  return std::visit(
      [](const auto& body) -> uint32_t {
        if constexpr (requires { body.local_comm_id; })
          return body.local_comm_id;
        else
          return 0;
      },
      message.body);
}

}  // namespace

Intriguer::Intriguer(Random& random, const std::vector<testing::Golden>& captured)
    : random_(random), ear_(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_IP))) {
  expect(ear_ >= 0, "the wire cannot be heard");
  for (const testing::Golden& each : captured)
    if (const auto message = message_in(each.bytes)) captured_.push_back(*message);
  expect(!captured_.empty(), "no message was captured");
}

Intriguer::~Intriguer() { close(ear_); }

void Intriguer::listen() {
  uint8_t packet[2048];
  for (ssize_t bytes; (bytes = recv(ear_, packet, sizeof packet, MSG_TRUNC)) >= 0;) {
    if (static_cast<size_t>(bytes) > sizeof packet) continue;
    const std::span<const uint8_t> whole(packet, static_cast<size_t>(bytes));
    const auto datagram = roce::Datagram::parse(whole);
    if (!datagram || !(datagram->envelope.source == host(kVictim))) continue;
    if (const auto message = message_in(whole)) {
      overheard_++;
      heard_.push_back(*message);
      if (heard_.size() > kHeardMax) heard_.pop_front();
    }
  }
}

// The names of both ends as they may be, so that some of it is about something.
void Intriguer::fit(Message& message, const Gid& from) {
  const Message* heard =
      heard_.empty() ? nullptr : &heard_[random_.below(static_cast<uint32_t>(heard_.size()))];
  std::visit(
      [&](auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, Req>) {
          address_service(body, PortSpace::kTcp, from);
          body.local_comm_id = random_.one_in(4) ? 1 + random_.below(next_id_) : next_id_++;
          if (random_.one_in(2)) body.local_qpn = 0x1000 + next_id_;
        } else if constexpr (std::is_same_v<Body, SidrReq>) {
          address_service(body, PortSpace::kUdp, from);
          body.request_id = random_.one_in(4) ? 1 + random_.below(next_id_) : next_id_++;
        } else if constexpr (requires { body.remote_comm_id; }) {
          if (heard == nullptr || random_.one_in(8)) return;
          body.remote_comm_id = own_id(*heard);
          std::visit(
              [&](const auto& other) {
                if constexpr (requires { other.remote_comm_id; }) body.local_comm_id = other.remote_comm_id;
              },
              heard->body);
          message.header.transaction = heard->header.transaction;
          if constexpr (requires { body.remote_qpn; })
            if (!random_.one_in(4)) body.remote_qpn = 0x777;
        }
      },
      message.body);
}

Message Intriguer::any_message(const Gid& from) {
  Message message = captured_[random_.below(static_cast<uint32_t>(captured_.size()))];
  if (!random_.one_in(8)) fit(message, from);
  return message;
}

void Intriguer::send_any(Attacker& from) {
  std::vector<uint8_t> mad(roce::kMadBytes);
  if (random_.one_in(16))
    random_.fill(mad.data(), mad.size());
  else
    any_message(from.source()).emit(mad);
  if (random_.one_in(2))
    for (uint32_t i = random_.below(4); i > 0; i--)
      mad[random_.below(static_cast<uint32_t>(mad.size()))] = static_cast<uint8_t>(random_.next());
  if (random_.one_in(16)) mad.resize(random_.below(512));
  roce::Headers headers;
  headers.bth.opcode = roce::opcode(roce::Transport::kUd, roce::Operation::kSendOnly);
  headers.bth.destination = random_.one_in(64) ? random_.below(3) : roce::kGeneralServicesQpn;
  headers.bth.psn = random_.below(1 << 24);
  headers.deth = {random_.one_in(16) ? random_.below(UINT32_MAX) : roce::kGeneralServicesQkey,
                  random_.one_in(16) ? random_.below(1 << 24) : roce::kGeneralServicesQpn};
  from.send_roughly(headers, mad);
}

void Intriguer::send_right(Attacker& from) {
  const auto request = std::find_if(captured_.begin(), captured_.end(), [](const Message& each) {
    return std::holds_alternative<Req>(each.body);
  });
  expect(request != captured_.end(), "no request was captured");
  Message message = *request;
  Req& req = std::get<Req>(message.body);
  address_service(req, PortSpace::kTcp, from.source());
  req.transport_service = TransportService::kRc;
  req.local_comm_id = 0x800000 + next_id_;
  req.local_qpn = 0x800000 + next_id_++;
  std::vector<uint8_t> mad(roce::kMadBytes);
  message.emit(mad);
  roce::Headers headers;
  headers.bth.opcode = roce::opcode(roce::Transport::kUd, roce::Operation::kSendOnly);
  headers.bth.destination = roce::kGeneralServicesQpn;
  headers.deth = {roce::kGeneralServicesQkey, roce::kGeneralServicesQpn};
  from.send(headers, mad);
}

}  // namespace verbatim::fuzz
