// SPDX-License-Identifier: MIT
#include "wire/link/udp/port_socket.h"

#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "wire/format/ip.h"

namespace verbatim::wire::udp {

namespace {

constexpr int kReceiveBytes = 8 << 20, kSendBytes = 4 << 20;
constexpr int kUdpNoCheck6Receive = 102, kUdpGro = 104;  // linux/udp.h and
constexpr int kFlowLabelSend = 33;                       // linux/in6.h clash with netinet
constexpr int kMulticastAll = 49;                        // linux/in.h

bool set(int socket, int level, int option, int value) {
  return setsockopt(socket, level, option, &value, sizeof value) == 0;
}

// As much as the machine allows: the limit does not hold for who administers the network.
void set_buffers(int socket) {
  if (!set(socket, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBytes))
    set(socket, SOL_SOCKET, SO_RCVBUF, kReceiveBytes);
  if (!set(socket, SOL_SOCKET, SO_SNDBUFFORCE, kSendBytes)) set(socket, SOL_SOCKET, SO_SNDBUF, kSendBytes);
}

bool forbid_fragments(int socket) {
  return set(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) &&
         set(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
}

bool allow_fragments(int socket) {
  return set(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT) &&
         set(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DONT);
}

bool prepare_to_send(int socket) {
  set(socket, IPPROTO_IPV6, kFlowLabelSend, 1);
  set(socket, IPPROTO_IP, IP_MULTICAST_LOOP, 0);  // processes of this host get theirs through shared memory
  set(socket, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
  return set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0) && forbid_fragments(socket);
}

bool prepare_to_receive(int socket) {
  set(socket, IPPROTO_UDP, kUdpGro, 1);
  // Datagrams to a group must fit several sockets: the kernel would give what fits only one to whichever
  // shares the port. IPv6 has it so anyway.
  set(socket, IPPROTO_IP, kMulticastAll, 1);
  set(socket, IPPROTO_UDP, kUdpNoCheck6Receive, 1);  // Linux rxe sends so
  set(socket, IPPROTO_IP, IP_RECVTOS, 1);
  set(socket, IPPROTO_IP, IP_RECVTTL, 1);
  set(socket, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
  set(socket, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
  return set(socket, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) && set(socket, SOL_SOCKET, SO_REUSEPORT, 1);
}

Expected<int> refuse(int socket, const std::string& what) {
  const int error = errno;
  if (socket >= 0) close(socket);
  return Error{error, what + ": " + std::strerror(error)};
}

std::string owner_of_port() {
  const std::vector<PortHolder> holders = port_holders();
  if (holders.empty()) return "somebody else";
  if (holders[0].inode == 0) return "the kernel, as when its rdma_rxe is loaded";
  return "a process of user " + std::to_string(holders[0].user);
}

Expected<int> open_socket(bool port) {
  const int made = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return refuse(made, "no UDP socket");
  if (!prepare_to_send(made) || (port && !prepare_to_receive(made)))
    return refuse(made, "a UDP socket lacks what RoCEv2 needs");
  set_buffers(made);
  const sockaddr_in6 any = address_of(Gid{}, port ? roce::kRocePort : 0, 0);
  if (bind(made, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0) return made;
  if (errno != EADDRINUSE || !port) return refuse(made, "a UDP socket could not be bound");
  close(made);
  return Error{EADDRINUSE, "UDP port 4791 belongs to " + owner_of_port()};
}

}  // namespace

Expected<int> open_port_socket() { return open_socket(true); }
Expected<int> open_sending_socket() { return open_socket(false); }

Expected<int> open_fragmenting_socket() {
  const Expected<int> opened = open_socket(false);
  if (opened && !allow_fragments(*opened)) return refuse(*opened, "a UDP socket cannot send fragments");
  return opened;
}

void set_membership(int socket, const Gid& group, uint32_t interface, bool member) {
  if (group.is_ipv4_mapped()) {
    ip_mreqn request{};
    std::memcpy(&request.imr_multiaddr, group.bytes.data() + 12, 4);
    request.imr_ifindex = static_cast<int>(interface);
    (void)setsockopt(socket, IPPROTO_IP, member ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request,
                     sizeof request);
    return;
  }
  ipv6_mreq request{};
  request.ipv6mr_multiaddr = address_of(group, 0, 0).sin6_addr;
  request.ipv6mr_interface = interface;
  (void)setsockopt(socket, IPPROTO_IPV6, member ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &request,
                   sizeof request);
}

std::vector<PortHolder> port_holders() {
  std::vector<PortHolder> holders;
  for (const char* path : {"/proc/self/net/udp6", "/proc/self/net/udp"}) {
    FILE* table = fopen(path, "re");
    if (!table) continue;
    char line[512];
    unsigned port = 0, user = 0;
    unsigned long inode = 0;
    while (fgets(line, sizeof line, table))
      if (std::sscanf(line, " %*d: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %u %*s %lu", &port, &user, &inode) ==
              3 &&
          port == roce::kRocePort)
        holders.push_back({user, inode});
    fclose(table);
  }
  return holders;
}

sockaddr_in6 address_of(const Gid& gid, uint16_t port, uint32_t scope) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  std::memcpy(&address.sin6_addr, gid.bytes.data(), gid.bytes.size());
  if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) address.sin6_scope_id = scope;
  return address;
}

Gid gid_of(const in6_addr& address) {
  Gid gid;
  std::memcpy(gid.bytes.data(), &address, gid.bytes.size());
  return gid;
}

}  // namespace verbatim::wire::udp
