// SPDX-License-Identifier: MIT
#include "agent/wire_ports.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "testing/private_network.h"
#include "wire/format/headers.h"
#include "wire/link/udp/port_socket.h"

namespace verbatim::agent {
namespace {

using testing_support::run_in_private_network;
using testing_support::set_interface;

/// Processes with their sockets, and an agent that may be killed.
struct Village {
  std::unique_ptr<Directory> directory = std::make_unique<Directory>();
  std::unique_ptr<WirePorts> agent = begin_agent();
  std::map<uint32_t, int> sockets;  ///< by primary slot
  int from = -1;
  uint64_t now_ns = 1;
  int for_agent = 0;  ///< packets that the agent got

  std::unique_ptr<WirePorts> begin_agent() {
    return std::make_unique<WirePorts>("village", *directory, [this](int socket) {
      char byte;
      while (recv(socket, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0) for_agent++;
    });
  }

  bool move_in(uint32_t slot) {
    directory->slots[slot].generation = 1;
    directory->slots[slot].primary = slot;
    const Expected<int> opened = agent->open(slot, now_ns);
    if (!opened) return false;
    sockets[slot] = fcntl(*opened, F_DUPFD_CLOEXEC, 0);
    return true;
  }
  void die(uint32_t slot) {
    close(sockets[slot]);
    sockets.erase(slot);
  }
  void move_out(uint32_t slot) {
    die(slot);
    directory->slots[slot].generation = 0;
    agent->leave(slot);
  }
  void send(uint32_t qpn) {
    if (from < 0) from = *wire::udp::open_sending_socket();
    Gid here;
    here.bytes[15] = 1;
    const sockaddr_in6 to = wire::udp::address_of(here, 4791, 0);
    roce::Bth bth;
    bth.destination = qpn;
    uint8_t packet[roce::Bth::kBytes];
    bth.emit(packet);
    sendto(from, packet, sizeof packet, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  /// All that is for a slot comes to its process.
  bool in_order() {
    for (uint32_t slot = 1; slot < 32; slot++) {
      if (directory->slots[slot].generation == 0) continue;
      send(slot << 14 | 16);
      char byte;
      if (recv(sockets[directory->slots[slot].primary], &byte, 1, MSG_DONTWAIT) != 1) return false;
    }
    return true;
  }
  void kill_agent() { agent.reset(); }
  /// Those that live tell the next agent what they were told by the last.
  bool restart_agent() {
    agent = begin_agent();
    return take_back_all();
  }
  bool take_back_all() {
    for (const auto& [slot, socket] : sockets)
      if (!agent->take_back(slot, fcntl(socket, F_DUPFD_CLOEXEC, 0), directory->slots[slot].wire_number,
                            now_ns))
        return false;
    return true;
  }
};

TEST(WirePorts, StaysInOrderAsProcessesComeAndGo) {
  run_in_private_network([] {
    if (!set_interface("lo", IFF_UP, nullptr)) return 1;
    Village village;
    for (const uint32_t slot : {1u, 2u, 3u, 4u})
      if (!village.move_in(slot) || !village.in_order()) return 2;
    village.move_out(2);
    if (!village.in_order()) return 3;
    if (!village.move_in(9) || !village.in_order()) return 4;
    village.move_out(9);
    village.move_out(1);
    if (!village.in_order()) return 5;
    village.directory->slots[20].generation = 1;
    village.directory->slots[20].primary = 3;
    village.agent->refresh(3);
    if (!village.in_order()) return 6;
    village.move_out(3);
    village.directory->slots[20].generation = 0;
    village.move_out(4);
    if (village.agent->own() >= 0) return 7;
    return village.move_in(5) && village.in_order() ? 0 : 8;
  });
}

TEST(WirePorts, OutlivesItsAgent) {
  run_in_private_network([] {
    if (!set_interface("lo", IFF_UP, nullptr)) return 1;
    Village village;
    for (const uint32_t slot : {1u, 2u, 3u, 4u})
      if (!village.move_in(slot)) return 2;
    village.kill_agent();
    if (!village.in_order()) return 3;
    if (!village.restart_agent() || !village.in_order()) return 4;
    const auto& [slot, socket] = *village.sockets.begin();
    if (village.agent->take_back(slot, socket, 0, village.now_ns)) return 9;  // it is back already
    const Expected<int> early = village.agent->open(7, village.now_ns);
    if (early || early.error().code != EAGAIN) return 5;
    village.now_ns = village.agent->settle_at_ns();
    if (!village.move_in(7) || !village.in_order()) return 6;
    village.move_out(1);
    return village.in_order() ? 0 : 7;
  });
}

TEST(WirePorts, FindsOutWhoEndedWithoutAnAgent) {
  run_in_private_network([] {
    if (!set_interface("lo", IFF_UP, nullptr)) return 1;
    Village village;
    for (const uint32_t slot : {1u, 2u, 3u, 4u})
      if (!village.move_in(slot)) return 2;
    village.kill_agent();
    village.die(2);
    village.directory->slots[2].generation = 0;
    if (!village.restart_agent()) return 3;
    village.now_ns = village.agent->settle_at_ns();
    village.agent->settle(village.now_ns);
    return village.in_order() ? 0 : 4;
  });
}

TEST(WirePorts, AreTheAgentsToo) {
  run_in_private_network([] {
    if (!set_interface("lo", IFF_UP, nullptr)) return 1;
    Village village;
    const auto agent_hears = [&] {
      const int before = village.for_agent;
      village.send(1);
      village.agent->drain();
      return village.for_agent == before + 1;
    };
    if (village.agent->own() >= 0 || !village.agent->expect(village.now_ns) || !agent_hears()) return 2;
    const uint64_t first = village.agent->own_number();
    village.send(1);  // still for the agent, when its socket is the process's
    if (!village.move_in(3) || village.for_agent != 2 || village.agent->own_number() == first) return 3;
    if (!village.in_order() || !agent_hears()) return 4;
    if (!village.move_in(4) || !village.in_order() || !agent_hears()) return 5;
    village.move_out(3);
    if (!village.in_order() || !agent_hears()) return 6;
    village.move_out(4);
    if (!agent_hears()) return 7;
    village.agent->expect_nothing();
    return village.agent->own() < 0 ? 0 : 8;
  });
}

TEST(WirePorts, AreTheNextAgentsToo) {
  run_in_private_network([] {
    if (!set_interface("lo", IFF_UP, nullptr)) return 1;
    Village village;
    for (const uint32_t slot : {1u, 2u, 3u})
      if (!village.move_in(slot)) return 2;
    village.kill_agent();
    village.die(1);
    village.directory->slots[1].generation = 0;
    village.agent = village.begin_agent();
    if (!village.agent->expect(village.now_ns)) return 3;  // before anybody has come back
    if (!village.take_back_all()) return 4;
    village.now_ns = village.agent->settle_at_ns();
    village.agent->settle(village.now_ns);
    if (!village.in_order()) return 5;
    const int before = village.for_agent;
    village.send(1);
    village.agent->drain();
    return village.for_agent == before + 1 ? 0 : 6;
  });
}

TEST(WirePorts, TellWhoHasThePort) {
  run_in_private_network([] {
    if (!set_interface("lo", IFF_UP, nullptr)) return 1;
    Village village;
    const int theirs = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const sockaddr_in6 any = wire::udp::address_of(Gid{}, 4791, 0);
    if (bind(theirs, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) return 2;
    const Outcome refused = village.agent->expect(village.now_ns);
    if (refused || refused.error().code != EADDRINUSE) return 3;
    close(theirs);
    if (village.agent->expect(village.now_ns + 1)) return 4;  // it does not try all the time
    return village.agent->expect(village.now_ns + 1'000'000'000) ? 0 : 5;
  });
}

TEST(WirePorts, BelongToOneAgent) {
  run_in_private_network([] {
    if (!set_interface("lo", IFF_UP, nullptr)) return 1;
    Village village, other;
    if (!village.move_in(1)) return 2;
    const Expected<int> refused = other.agent->open(1, 1);
    if (refused || refused.error().reason != "UDP port 4791 belongs to another agent of this user") return 3;
    village.move_out(1);
    if (!other.move_in(1) || !other.in_order()) return 4;
    if (village.agent->expect(village.now_ns)) return 5;
    other.kill_agent();
    other.die(1);
    return village.move_in(1) && village.in_order() ? 0 : 6;
  });
}

}  // namespace
}  // namespace verbatim::agent
