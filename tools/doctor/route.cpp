// SPDX-License-Identifier: MIT
#include "tools/doctor/route.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace verbatim::doctor {

namespace {

constexpr int kAnswerS = 2;

/// A request for the route to an address.
struct Question {
  nlmsghdr header{};
  rtmsg message{};
  char attributes[64] = {};

  explicit Question(const Address& address) {
    const bool ipv4 = address.family == AF_INET;
    header.nlmsg_len = NLMSG_LENGTH(sizeof message);
    header.nlmsg_type = RTM_GETROUTE;
    header.nlmsg_flags = NLM_F_REQUEST;
    message.rtm_family = static_cast<unsigned char>(address.family);
    message.rtm_dst_len = ipv4 ? 32 : 128;
    add(RTA_DST, address.address.bytes.data() + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
    if (address.scope != 0) add(RTA_OIF, &address.scope, sizeof address.scope);
  }

 private:
  void add(unsigned short type, const void* value, size_t bytes) {
    const size_t used = header.nlmsg_len - NLMSG_LENGTH(sizeof message);
    const rtattr attribute{static_cast<unsigned short>(RTA_LENGTH(bytes)), type};
    std::memcpy(attributes + used, &attribute, sizeof attribute);
    std::memcpy(attributes + used + RTA_LENGTH(0), value, bytes);
    header.nlmsg_len += RTA_SPACE(bytes);
  }
};
static_assert(offsetof(Question, attributes) == NLMSG_LENGTH(sizeof(rtmsg)));

int error_of(unsigned char route_type) {
  switch (route_type) {
    case RTN_UNREACHABLE:
      return EHOSTUNREACH;
    case RTN_PROHIBIT:
      return EACCES;
    case RTN_BLACKHOLE:
      return EINVAL;
    default:
      return 0;
  }
}

Gid gid_from(const rtattr* attribute) {
  Gid gid;
  if (RTA_PAYLOAD(attribute) == 4) {
    gid.bytes[10] = gid.bytes[11] = 0xff;
    std::memcpy(gid.bytes.data() + 12, RTA_DATA(attribute), 4);
  } else if (RTA_PAYLOAD(attribute) == 16) {
    std::memcpy(gid.bytes.data(), RTA_DATA(attribute), 16);
  }
  return gid;
}

uint32_t number_from(const rtattr* attribute) {
  uint32_t number = 0;
  std::memcpy(&number, RTA_DATA(attribute), std::min<size_t>(RTA_PAYLOAD(attribute), sizeof number));
  return number;
}

uint32_t mtu_from(const rtattr* metrics) {
  auto left = static_cast<int>(RTA_PAYLOAD(metrics));
  for (const auto* each = static_cast<const rtattr*>(RTA_DATA(metrics)); RTA_OK(each, left);
       each = RTA_NEXT(each, left))
    if (each->rta_type == RTAX_MTU) return number_from(each);
  return 0;
}

Route read_route(const nlmsghdr* header) {
  const auto* message = static_cast<const rtmsg*>(NLMSG_DATA(header));
  Route route;
  route.local = message->rtm_type == RTN_LOCAL;
  auto left = static_cast<int>(RTM_PAYLOAD(header));
  for (const rtattr* each = RTM_RTA(message); RTA_OK(each, left); each = RTA_NEXT(each, left)) {
    if (each->rta_type == RTA_OIF) route.interface = number_from(each);
    if (each->rta_type == RTA_PREFSRC) route.source = gid_from(each);
    if (each->rta_type == RTA_GATEWAY) route.gateway = gid_from(each);
    if (each->rta_type == RTA_METRICS) route.mtu = mtu_from(each);
  }
  return route;
}

Error refusal(int error) {
  switch (error) {
    case ENETUNREACH:
      return {error, "the kernel has no route"};
    case EHOSTUNREACH:
      return {error, "its route is of the kind 'unreachable'"};
    case EACCES:
      return {error, "its route is of the kind 'prohibit'"};
    case EINVAL:
      return {error, "its route is of the kind 'blackhole'"};
    default:
      return {error, std::string("the kernel tells no route: ") + std::strerror(error)};
  }
}

}  // namespace

Interface interface_of(uint32_t index) {
  Interface found;
  ifreq request{};
  if (!if_indextoname(index, request.ifr_name)) return found;
  found.name = request.ifr_name;
  const int asked = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (asked < 0) return found;
  if (ioctl(asked, SIOCGIFFLAGS, &request) == 0) {
    found.up = (request.ifr_flags & IFF_UP) != 0;
    found.running = (request.ifr_flags & IFF_RUNNING) != 0;
  }
  if (ioctl(asked, SIOCGIFMTU, &request) == 0) found.mtu = static_cast<uint32_t>(request.ifr_mtu);
  close(asked);
  return found;
}

Expected<Route> route_to(const Address& address) {
  const int asked = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (asked < 0) return refusal(errno);
  const timeval wait{kAnswerS, 0};
  setsockopt(asked, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  const Question question(address);
  alignas(nlmsghdr) char answer[4096];
  ssize_t got = -1;
  if (send(asked, &question, question.header.nlmsg_len, 0) >= 0) got = recv(asked, answer, sizeof answer, 0);
  const int error = errno;
  close(asked);
  if (got < 0) return refusal(error);
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer);
  if (!NLMSG_OK(header, static_cast<size_t>(got))) return refusal(EPROTO);
  if (header->nlmsg_type == NLMSG_ERROR)
    return refusal(-static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error);
  if (header->nlmsg_type != RTM_NEWROUTE) return refusal(EPROTO);
  if (const int kind = error_of(static_cast<const rtmsg*>(NLMSG_DATA(header))->rtm_type))
    return refusal(kind);
  return read_route(header);
}

}  // namespace verbatim::doctor
