// SPDX-License-Identifier: MIT
#include "lib/ibverbs/ethernet_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

namespace verbatim::verbs {
namespace {

bool is_ipv4_mapped(const ibv_gid& gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

/// ff0e::ffff:a.b.c.d and the like stand for IPv4 groups (RFC 1112), the rest for IPv6 ones (RFC 2464).
void multicast_address(const ibv_gid& gid, uint8_t* mac) {
  const bool ipv4 = gid.raw[10] == 0xff && gid.raw[11] == 0xff;
  if (ipv4) {
    const uint8_t address[] = {0x01,        0x00,       0x5e, static_cast<uint8_t>(gid.raw[13] & 0x7f),
                               gid.raw[14], gid.raw[15]};
    std::memcpy(mac, address, sizeof address);
    return;
  }
  mac[0] = mac[1] = 0x33;
  std::memcpy(mac + 2, gid.raw + 12, 4);
}

/// fe80::/10 with a modified EUI-64 that was made from an Ethernet address (RFC 4291).
bool link_local_address(const ibv_gid& gid, uint8_t* mac) {
  if (gid.raw[0] != 0xfe || (gid.raw[1] & 0xc0) != 0x80 || gid.raw[11] != 0xff || gid.raw[12] != 0xfe)
    return false;
  std::memcpy(mac, gid.raw + 8, 3);
  std::memcpy(mac + 3, gid.raw + 13, 3);
  mac[0] ^= 2;
  return true;
}

bool has_address(const sockaddr* address, const ibv_gid& gid) {
  if (address == nullptr) return false;
  if (address->sa_family == AF_INET && is_ipv4_mapped(gid))
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr, gid.raw + 12, 4) == 0;
  return address->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, gid.raw, 16) == 0;
}

bool own_address(const ibv_gid& gid, uint8_t* mac) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, freeifaddrs);
  for (const ifaddrs* with_address = first; with_address != nullptr; with_address = with_address->ifa_next) {
    if (!has_address(with_address->ifa_addr, gid)) continue;
    for (const ifaddrs* link = first; link != nullptr; link = link->ifa_next) {
      if (link->ifa_addr == nullptr || link->ifa_addr->sa_family != AF_PACKET) continue;
      if (std::strcmp(link->ifa_name, with_address->ifa_name) != 0) continue;
      std::memcpy(mac, reinterpret_cast<const sockaddr_ll*>(link->ifa_addr)->sll_addr, ETHERNET_LL_SIZE);
      return true;
    }
  }
  return false;
}

bool neighbour_address(const ibv_gid& gid, uint8_t* mac) {
  if (!is_ipv4_mapped(gid)) return false;
  char wanted[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, gid.raw + 12, wanted, sizeof wanted);
  std::ifstream table("/proc/net/arp");
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string address, type, flags, hardware;
    words >> address >> type >> flags >> hardware;
    if (address != wanted) continue;
    unsigned int byte[ETHERNET_LL_SIZE];
    if (std::sscanf(hardware.c_str(), "%x:%x:%x:%x:%x:%x", &byte[0], &byte[1], &byte[2], &byte[3], &byte[4],
                    &byte[5]) != ETHERNET_LL_SIZE)
      return false;
    for (int i = 0; i < ETHERNET_LL_SIZE; i++) mac[i] = static_cast<uint8_t>(byte[i]);
    return true;
  }
  return false;
}

}  // namespace

bool find_ethernet_address(const ibv_gid& gid, uint8_t mac[ETHERNET_LL_SIZE]) {
  if (gid.raw[0] == 0xff) {
    multicast_address(gid, mac);
    return true;
  }
  return link_local_address(gid, mac) || own_address(gid, mac) || neighbour_address(gid, mac);
}

}  // namespace verbatim::verbs
