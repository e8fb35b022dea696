// SPDX-License-Identifier: MIT
#include "wire/link/udp/steering.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "testing/private_network.h"
#include "wire/format/headers.h"
#include "wire/link/udp/port_socket.h"

namespace verbatim::wire::udp {
namespace {

using testing_support::run_in_private_network;
using testing_support::set_interface;

Gid loopback() {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  gid.bytes[12] = 127;
  gid.bytes[15] = 1;
  return gid;
}

bool send_to_queue_pair(int from, uint32_t qpn) {
  roce::Bth bth;
  bth.destination = qpn;
  uint8_t packet[roce::Bth::kBytes];
  bth.emit(packet);
  const sockaddr_in6 to = address_of(loopback(), 4791, 0);
  return sendto(from, packet, sizeof packet, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to) ==
         sizeof packet;
}

/// Which of the sockets got a packet; -1: none or several.
int receiver(const std::vector<int>& sockets) {
  int found = -1, count = 0;
  for (size_t i = 0; i < sockets.size(); i++) {
    char byte;
    if (recv(sockets[i], &byte, 1, MSG_DONTWAIT) < 0) continue;
    found = static_cast<int>(i);
    count++;
  }
  return count == 1 ? found : -1;
}

TEST(Steering, GivesEachItsQueuePairs) {
  run_in_private_network([] {
    if (!set_interface("lo", IFF_UP, nullptr)) return 1;
    std::vector<int> sockets;
    for (int i = 0; i < 4; i++) {
      const Expected<int> made = open_port_socket();
      if (!made) return 2;
      sockets.push_back(*made);
    }
    const Expected<int> from = open_sending_socket();
    if (!from) return 3;
    if (!steer(sockets[0], steering_program({{1, 0}, {700, 1}, {2, 2}, {1023, 1}}, 3))) return 4;
    const std::pair<uint32_t, int> wanted[] = {{1u << 14 | 16, 0}, {700u << 14, 1}, {2u << 14 | 0x3fff, 2},
                                               {1023u << 14, 1},   {1, 3},          {0xffffff, 1},
                                               {3u << 14, 3},      {0, 3}};
    for (const auto& [qpn, socket] : wanted)
      for (int tries = 0; tries < 8; tries++)
        if (!send_to_queue_pair(*from, qpn) || receiver(sockets) != socket) return 100 + socket;
    // The last takes the number of one that is closed.
    close(sockets[1]);
    const std::vector<int> left = {sockets[0], sockets[3], sockets[2]};
    for (int tries = 0; tries < 8; tries++)
      if (!send_to_queue_pair(*from, 700u << 14) || receiver(left) != 1) return 5;
    return 0;
  });
}

TEST(Steering, TellsWhoHasThePort) {
  run_in_private_network([] {
    const int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(4791);
    if (bind(other, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) return 1;
    const Expected<int> refused = open_port_socket();
    if (refused || refused.error().code != EADDRINUSE) return 2;
    return refused.error().reason == "UDP port 4791 belongs to a process of user " + std::to_string(getuid())
               ? 0
               : 3;
  });
}

}  // namespace
}  // namespace verbatim::wire::udp
