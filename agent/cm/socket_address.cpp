// SPDX-License-Identifier: MIT
#include "agent/cm/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace verbatim::agent::cm {

namespace {

constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

bool SocketAddress::is_wildcard() const {
  const size_t from = family == AF_INET ? 12 : 0;
  return std::all_of(address.bytes.begin() + from, address.bytes.end(),
                     [](uint8_t byte) { return byte == 0; });
}

bool SocketAddress::is_loopback() const {
  if (family == AF_INET) return address.bytes[12] == 127;
  static constexpr Gid kOne{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  return address == kOne;
}

bool SocketAddress::is_link_local() const {
  return family == AF_INET6 && address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
}

SocketAddress socket_address(const sockaddr* address, socklen_t bytes) {
  SocketAddress result;
  if (!address || bytes < sizeof address->sa_family) return result;
  if (address->sa_family == AF_INET && bytes >= sizeof(sockaddr_in)) {
    sockaddr_in given;
    std::memcpy(&given, address, sizeof given);
    result.port = ntohs(given.sin_port);
    std::copy_n(kMapped, sizeof kMapped, result.address.bytes.begin());
    std::memcpy(&result.address.bytes[12], &given.sin_addr, 4);
  } else if (address->sa_family == AF_INET6 && bytes >= sizeof(sockaddr_in6)) {
    sockaddr_in6 given;
    std::memcpy(&given, address, sizeof given);
    result.port = ntohs(given.sin6_port);
    result.scope = given.sin6_scope_id;
    result.flow = ntohl(given.sin6_flowinfo);
    std::memcpy(result.address.bytes.data(), &given.sin6_addr, 16);
  } else if (address->sa_family == AF_INET || address->sa_family == AF_INET6) {
    return result;
  }
  result.family = address->sa_family;
  return result;
}

socklen_t to_sockaddr(const SocketAddress& address, sockaddr_storage& out) {
  std::memset(&out, 0, sizeof out);
  if (address.family == AF_INET) {
    auto& made = reinterpret_cast<sockaddr_in&>(out);
    made.sin_family = AF_INET;
    made.sin_port = htons(address.port);
    std::memcpy(&made.sin_addr, &address.address.bytes[12], 4);
    return sizeof made;
  }
  if (address.family != AF_INET6) return 0;
  auto& made = reinterpret_cast<sockaddr_in6&>(out);
  made.sin6_family = AF_INET6;
  made.sin6_port = htons(address.port);
  made.sin6_scope_id = address.scope;
  made.sin6_flowinfo = htonl(address.flow);
  std::memcpy(&made.sin6_addr, address.address.bytes.data(), 16);
  return sizeof made;
}

}  // namespace verbatim::agent::cm
