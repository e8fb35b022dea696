// SPDX-License-Identifier: MIT
#include "tools/doctor/address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <cerrno>
#include <memory>

namespace verbatim::doctor {

Expected<Address> find_address(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) return Error{EHOSTUNREACH, gai_strerror(error)};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(list, freeaddrinfo);
  Address address = agent::cm::socket_address(list->ai_addr, list->ai_addrlen);
  if (address.address.is_ipv4_mapped()) address.family = AF_INET;  // a GID, as devices list it
  return address;
}

std::string text_of(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (gid.is_ipv4_mapped())
    inet_ntop(AF_INET, gid.bytes.data() + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof text);
  return text;
}

}  // namespace verbatim::doctor
