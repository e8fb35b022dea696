// SPDX-License-Identifier: MIT
#include "agent/neighbors.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "wire/format/ip.h"

namespace verbatim::agent {

namespace {

constexpr size_t kAnswerBytes = 4096;
constexpr uint16_t kUsable = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY;

size_t address_bytes(const cm::SocketAddress& address) { return address.family == AF_INET ? 4 : 16; }
const uint8_t* address_at(const cm::SocketAddress& address) {
  return address.address.bytes.data() + 16 - address_bytes(address);
}

void add(std::vector<uint8_t>& message, uint16_t type, const void* value, size_t bytes) {
  const rtattr header{static_cast<uint16_t>(RTA_LENGTH(bytes)), type};
  const size_t at = message.size();
  message.resize(at + RTA_SPACE(bytes));
  std::memcpy(message.data() + at, &header, sizeof header);
  std::memcpy(message.data() + at + RTA_LENGTH(0), value, bytes);
}

}  // namespace

Neighbors::~Neighbors() {
  if (netlink_ >= 0) close(netlink_);
}

// The kernel has answered when the request has been sent.
const nlmsghdr* Neighbors::ask(uint16_t type, const void* body, size_t bytes, const Attribute& attribute,
                               uint32_t interface) {
  if (netlink_ < 0) netlink_ = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (netlink_ < 0) return nullptr;
  request_.assign(NLMSG_SPACE(bytes), 0);
  std::memcpy(request_.data() + NLMSG_HDRLEN, body, bytes);
  add(request_, attribute.type, address_at(attribute.address), address_bytes(attribute.address));
  if (interface != 0) add(request_, RTA_OIF, &interface, sizeof interface);
  nlmsghdr header{};
  header.nlmsg_len = static_cast<uint32_t>(request_.size());
  header.nlmsg_type = type;
  header.nlmsg_flags = NLM_F_REQUEST;
  header.nlmsg_seq = ++sequence_;
  std::memcpy(request_.data(), &header, sizeof header);
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (sendto(netlink_, request_.data(), request_.size(), 0, reinterpret_cast<const sockaddr*>(&kernel),
             sizeof kernel) < 0)
    return nullptr;
  for (;;) {
    answer_.resize(kAnswerBytes);
    const ssize_t got = recv(netlink_, answer_.data(), answer_.size(), 0);
    const auto* first = reinterpret_cast<const nlmsghdr*>(answer_.data());
    if (got < static_cast<ssize_t>(sizeof *first) || first->nlmsg_len > static_cast<size_t>(got))
      return nullptr;
    if (first->nlmsg_seq == sequence_) return first->nlmsg_type == NLMSG_ERROR ? nullptr : first;
  }
}

// None: nobody on a network has to be asked for it, or the kernel does not tell.
std::optional<Neighbors::Hop> Neighbors::next_hop(const cm::SocketAddress& destination) {
  rtmsg body{};
  body.rtm_family = static_cast<uint8_t>(destination.family);
  body.rtm_dst_len = static_cast<uint8_t>(address_bytes(destination) * 8);
  const nlmsghdr* answer = ask(RTM_GETROUTE, &body, sizeof body, {RTA_DST, destination}, destination.scope);
  if (!answer || answer->nlmsg_type != RTM_NEWROUTE) return std::nullopt;
  const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(answer));
  if (route->rtm_type != RTN_UNICAST) return std::nullopt;
  Hop hop{destination, 0};
  auto left = static_cast<int>(answer->nlmsg_len - NLMSG_SPACE(sizeof *route));
  for (const rtattr* at = RTM_RTA(route); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
    if (at->rta_type == RTA_OIF)
      std::memcpy(&hop.interface, RTA_DATA(at), sizeof hop.interface);
    else if (at->rta_type == RTA_GATEWAY && RTA_PAYLOAD(at) == address_bytes(destination))
      std::memcpy(hop.address.address.bytes.data() + 16 - RTA_PAYLOAD(at), RTA_DATA(at), RTA_PAYLOAD(at));
    else if (at->rta_type == RTA_VIA)
      return std::nullopt;
  }
  return hop;
}

// NUD_NONE: there is no entry.
uint16_t Neighbors::state_of(const Hop& hop) {
  ndmsg body{};
  body.ndm_family = static_cast<uint8_t>(hop.address.family);
  body.ndm_ifindex = static_cast<int>(hop.interface);
  const nlmsghdr* answer = ask(RTM_GETNEIGH, &body, sizeof body, {NDA_DST, hop.address}, 0);
  if (!answer || answer->nlmsg_type != RTM_NEWNEIGH) return NUD_NONE;
  return static_cast<const ndmsg*>(NLMSG_DATA(answer))->ndm_state;
}

// An empty datagram, which its receiver throws away.
void Neighbors::provoke(const cm::SocketAddress& destination) {
  cm::SocketAddress to = destination;
  to.port = roce::kRocePort;
  sockaddr_storage address{};
  const socklen_t length = cm::to_sockaddr(to, address);
  const int sending = socket(destination.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (sending < 0) return;
  (void)sendto(sending, nullptr, 0, 0, reinterpret_cast<const sockaddr*>(&address), length);
  close(sending);
}

bool Neighbors::is_known(const cm::SocketAddress& destination) {
  if (destination.address.is_multicast()) return true;
  const std::optional<Hop> hop = next_hop(destination);
  if (!hop) return true;
  const uint16_t state = state_of(*hop);
  if ((state & kUsable) != 0) return true;
  if ((state & NUD_INCOMPLETE) != 0) return false;
  provoke(destination);
  return (state_of(*hop) & kUsable) != 0;
}

}  // namespace verbatim::agent
