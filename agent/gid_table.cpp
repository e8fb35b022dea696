// SPDX-License-Identifier: MIT
#include "agent/gid_table.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

namespace verbatim::agent {

namespace {

bool is_link_local(const Gid& gid) { return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80; }

Gid mapped(const in_addr& address) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  std::memcpy(gid.bytes.data() + 12, &address, 4);
  return gid;
}

Gid eui64(const unsigned char mac[6]) {
  Gid gid;
  gid.bytes = {0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<uint8_t>(mac[0] ^ 2),
               mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  return gid;
}

uint32_t mtu_of(int socket, const char* name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  return ioctl(socket, SIOCGIFMTU, &request) == 0 ? static_cast<uint32_t>(request.ifr_mtu) : 1500;
}

struct FreeAddresses {
  void operator()(ifaddrs* list) const { freeifaddrs(list); }
};

// Place in the table: link-local, IPv4, other.
int rank(const Gid& gid) { return is_link_local(gid) ? 0 : gid.is_ipv4_mapped() ? 1 : 2; }

// Where the kernel does not say (a sandbox): there is no host without these.
std::vector<Address> loopback_addresses() {
  Address ipv4{"lo", 1, 65536, true, {}}, ipv6 = ipv4;
  ipv4.gid = mapped({htonl(INADDR_LOOPBACK)});
  ipv6.gid.bytes[15] = 1;
  return {ipv4, ipv6};
}

}  // namespace

std::vector<Address> host_addresses(bool& link_up) {
  std::vector<Address> found;
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) {
    link_up = true;
    return loopback_addresses();
  }
  const std::unique_ptr<ifaddrs, FreeAddresses> list(raw);
  const int socket_for_mtu = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  std::map<std::string, Gid> made_up;
  bool any = false, running = false;
  for (const ifaddrs* entry = raw; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP)) continue;
    Address address;
    address.interface = entry->ifa_name;
    address.interface_index = if_nametoindex(entry->ifa_name);
    address.mtu = mtu_of(socket_for_mtu, entry->ifa_name);
    address.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (entry->ifa_addr->sa_family == AF_PACKET) {
      const auto* link = reinterpret_cast<const sockaddr_ll*>(entry->ifa_addr);
      if (!address.loopback && link->sll_halen == 6) made_up[address.interface] = eui64(link->sll_addr);
      continue;
    }
    if (entry->ifa_addr->sa_family == AF_INET)
      address.gid = mapped(reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr);
    else if (entry->ifa_addr->sa_family == AF_INET6)
      std::memcpy(address.gid.bytes.data(),
                  &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr, 16);
    else
      continue;
    any |= !address.loopback;
    running |= !address.loopback && (entry->ifa_flags & IFF_RUNNING);
    found.push_back(std::move(address));
  }
  if (socket_for_mtu >= 0) close(socket_for_mtu);
  for (const auto& [name, gid] : made_up) {
    const auto of_it =
        std::find_if(found.begin(), found.end(), [&](const Address& a) { return a.interface == name; });
    const bool has = std::any_of(found.begin(), found.end(), [&](const Address& a) {
      return a.interface == name && is_link_local(a.gid);
    });
    if (of_it == found.end() || has) continue;
    Address address = *of_it;
    address.gid = gid;
    found.push_back(std::move(address));
  }
  link_up = running || !any;
  return found;
}

bool is_reachable(const Gid& gid) {
  Gid loopback;
  loopback.bytes[15] = 1;
  const bool local = gid.is_ipv4_mapped() ? gid.bytes[12] == 127 : gid == loopback || is_link_local(gid);
  return !gid.is_zero() && !local;
}

std::vector<engine::GidEntry> gid_order(std::vector<Address> addresses) {
  const bool only_loopback =
      std::all_of(addresses.begin(), addresses.end(), [](const Address& a) { return a.loopback; });
  if (only_loopback) {
    // A host of its own needs a link-local entry too; any will do, nobody else is there.
    Address address;
    address.loopback = true;
    address.mtu = 65536;
    address.interface_index = addresses.empty() ? 1 : addresses[0].interface_index;
    static constexpr unsigned char kMac[6] = {0x02, 0x56, 0x45, 0x52, 0x42, 0x4d};
    address.gid = eui64(kMac);
    addresses.push_back(std::move(address));
  }
  std::stable_sort(addresses.begin(), addresses.end(), [](const Address& a, const Address& b) {
    if (a.loopback != b.loopback) return b.loopback;
    if (a.interface_index != b.interface_index) return a.interface_index < b.interface_index;
    return rank(a.gid) < rank(b.gid);
  });
  std::vector<engine::GidEntry> table;
  for (const GidType type : {GidType::kRoceV2, GidType::kRoceV1})
    for (const Address& address : addresses)
      table.push_back({address.gid, type, address.interface_index, address.mtu});
  return table;
}

bool merge_gids(engine::GidEntry* table, uint32_t& count, const std::vector<engine::GidEntry>& wanted) {
  const auto same = [](const engine::GidEntry& a, const engine::GidEntry& b) {
    return a.gid == b.gid && a.type == b.type && a.interface_index == b.interface_index;
  };
  bool changed = false;
  for (uint32_t i = 0; i < count; i++) {
    const auto still =
        std::find_if(wanted.begin(), wanted.end(), [&](const auto& w) { return same(w, table[i]); });
    if (table[i].gid.is_zero()) continue;
    if (still == wanted.end()) {
      table[i] = engine::GidEntry{};
      changed = true;
    } else if (table[i].mtu != still->mtu) {
      table[i].mtu = still->mtu;
      changed = true;
    }
  }
  for (const engine::GidEntry& entry : wanted) {
    if (std::any_of(table, table + count, [&](const auto& t) { return same(t, entry); })) continue;
    uint32_t place = 0;
    while (place < count && !table[place].gid.is_zero()) place++;
    if (place == kGidsMax) break;
    table[place] = entry;
    count = std::max(count, place + 1);
    changed = true;
  }
  return changed;
}

}  // namespace verbatim::agent
