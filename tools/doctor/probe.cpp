// SPDX-License-Identifier: MIT
#include "tools/doctor/probe.h"

#include <linux/errqueue.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace verbatim::doctor {

namespace {

using Kind = Refusal::Kind;

constexpr uint32_t kIpv4Headers = 20 + 8, kIpv6Headers = 40 + 8;

void set(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

Kind kind_of_icmp(uint8_t type, uint8_t code) {
  if (type != ICMP_DEST_UNREACH) return Kind::kUnreachable;
  switch (code) {
    case ICMP_PORT_UNREACH:
      return Kind::kPortClosed;
    case ICMP_FRAG_NEEDED:
      return Kind::kTooBig;
    case ICMP_NET_ANO:
    case ICMP_HOST_ANO:
    case ICMP_PKT_FILTERED:
      return Kind::kProhibited;
    default:
      return Kind::kUnreachable;
  }
}

Kind kind_of_icmpv6(uint8_t type, uint8_t code) {
  if (type == ICMPV6_PKT_TOOBIG) return Kind::kTooBig;
  if (type != ICMPV6_DEST_UNREACH) return Kind::kUnreachable;
  switch (code) {
    case ICMPV6_PORT_UNREACH:
      return Kind::kPortClosed;
    case ICMPV6_ADM_PROHIBITED:
    case ICMPV6_POLICY_FAIL:
    case ICMPV6_REJECT_ROUTE:
      return Kind::kProhibited;
    default:
      return Kind::kUnreachable;
  }
}

Refusal refusal_of(const sock_extended_err& told) {
  Refusal refusal;
  refusal.error = static_cast<int>(told.ee_errno);
  if (told.ee_origin == SO_EE_ORIGIN_ICMP)
    refusal.kind = kind_of_icmp(told.ee_type, told.ee_code);
  else if (told.ee_origin == SO_EE_ORIGIN_ICMP6)
    refusal.kind = kind_of_icmpv6(told.ee_type, told.ee_code);
  else
    refusal.kind = told.ee_errno == EMSGSIZE ? Kind::kTooBig : Kind::kHere;
  if (refusal.kind == Kind::kTooBig) refusal.mtu = told.ee_info;
  return refusal;
}

}  // namespace

Probe::Probe(const Address& host, uint16_t port) : ipv4_(host.family == AF_INET) {
  Address with_port = host;
  with_port.port = port;
  sockaddr_storage address{};
  socklen_t length = agent::cm::to_sockaddr(with_port, address);
  socket_ = socket(host.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0) return;
  if (ipv4_) {
    set(socket_, IPPROTO_IP, IP_RECVERR, 1);
    set(socket_, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  } else {
    set(socket_, IPPROTO_IPV6, IPV6_RECVERR, 1);
    set(socket_, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
  }
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), length) != 0) return;
  length = sizeof address;
  if (getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) == 0)
    source_ = agent::cm::socket_address(reinterpret_cast<const sockaddr*>(&address), length).address;
}

Probe::~Probe() {
  if (socket_ >= 0) close(socket_);
}

std::optional<Refusal> Probe::send(uint32_t packet_bytes) {
  const uint32_t headers = ipv4_ ? kIpv4Headers : kIpv6Headers;
  const std::vector<char> payload(std::max(packet_bytes, headers) - headers);
  // What was told of an earlier packet comes first.
  constexpr int kTold = 3;
  for (int tries = 0; tries < kTold; tries++) {
    if (::send(socket_, payload.data(), payload.size(), 0) >= 0) return std::nullopt;
    const int error = errno;
    if (std::optional<Refusal> refusal = told()) {
      if (error == EMSGSIZE) return refusal;
      continue;
    }
    Refusal refusal;
    refusal.kind = error == EMSGSIZE ? Kind::kTooBig : Kind::kHere;
    refusal.error = error;
    return refusal;
  }
  return std::nullopt;
}

std::optional<Refusal> Probe::told() {
  char byte;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[512];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket_, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return std::nullopt;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each; each = CMSG_NXTHDR(&message, each)) {
    const bool error = (each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_RECVERR) ||
                       (each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_RECVERR);
    if (!error || each->cmsg_len < CMSG_LEN(sizeof(sock_extended_err))) continue;
    sock_extended_err told;
    std::memcpy(&told, CMSG_DATA(each), sizeof told);
    Refusal refusal = refusal_of(told);
    sockaddr_storage offender{};
    std::memcpy(&offender, CMSG_DATA(each) + sizeof told,
                std::min<size_t>(each->cmsg_len - CMSG_LEN(sizeof told), sizeof offender));
    const Address by =
        agent::cm::socket_address(reinterpret_cast<const sockaddr*>(&offender), sizeof offender);
    if (by.is_set()) {
      refusal.told_by = text_of(by.address);
      refusal.by_itself = by.address == source_;
    }
    return refusal;
  }
  return std::nullopt;
}

}  // namespace verbatim::doctor
