// SPDX-License-Identifier: MIT
// Management datagrams over real sockets, in a network of the test's own.
#include "agent/general_services.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <numeric>

#include "base/clock.h"
#include "testing/private_network.h"
#include "wire/format/ip.h"
#include "wire/format/packet.h"
#include "wire/link/tap/switch.h"
#include "wire/link/tap/tap.h"
#include "wire/link/udp/port_socket.h"

namespace verbatim::agent {
namespace {

using testing_support::run_in_private_network;
using testing_support::set_interface;

using Mad = std::array<uint8_t, roce::kMadBytes>;

Gid loopback(bool ipv6, uint8_t last) {
  Gid gid;
  gid.bytes[15] = last;
  if (ipv6) return gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  gid.bytes[12] = 127;
  return gid;
}

Mad some_mad(uint8_t first) {
  Mad mad;
  std::iota(mad.begin(), mad.end(), first);
  return mad;
}

/// Queue pair 1 of a host where no rules damage packets.
struct Services {
  wire::tap::Switch active;
  SystemClock clock;
  wire::tap::Tap tap{active, clock};
  GeneralServices services{tap};
};

/// A host that listens, and what has come to its queue pair 1.
struct Host : Services {
  struct Kept {
    Gid local, remote;
    Mad mad;
  };
  const int socket = *wire::udp::open_port_socket();
  std::vector<Kept> kept;

  ~Host() { close(socket); }
  /// Until so many have come, or for a second.
  bool await(size_t count) {
    pollfd readable{socket, POLLIN, 0};
    while (kept.size() < count && poll(&readable, 1, 1000) == 1) take();
    return kept.size() == count;
  }
  void take() {
    services.receive(socket, [this](const cm::Arrival& arrival) {
      Kept& one = kept.emplace_back(Kept{arrival.local, arrival.remote, {}});
      std::copy_n(arrival.mad.begin(), one.mad.size(), one.mad.begin());
    });
  }
};

TEST(GeneralServices, CarryDatagramsBothWays) {
  run_in_private_network([] {
    if (!set_interface("lo", IFF_UP, nullptr)) return 1;
    Host host;
    Services other;
    for (const bool ipv6 : {false, true}) {
      host.kept.clear();
      const Gid here = loopback(ipv6, 1), there = ipv6 ? here : loopback(ipv6, 2);
      for (uint8_t i = 0; i < 40; i++) other.services.send(there, 1, here, some_mad(i));
      if (!host.await(40)) return ipv6 ? 3 : 2;
      for (uint8_t i = 0; i < 40; i++)
        if (host.kept[i].mad != some_mad(i) || host.kept[i].local != here || host.kept[i].remote != there)
          return 4;
    }
    return 0;
  });
}

/// Packets as a stranger may write them.
struct Stranger {
  const int socket = *wire::udp::open_sending_socket();
  roce::Headers headers;
  std::vector<uint8_t> payload = std::vector<uint8_t>(roce::kMadBytes, 7);

  Stranger() {
    headers.bth.opcode = roce::opcode(roce::Transport::kUd, roce::Operation::kSendOnly);
    headers.bth.destination = headers.deth.source = roce::kGeneralServicesQpn;
    headers.deth.qkey = roce::kGeneralServicesQkey;
  }
  ~Stranger() { close(socket); }
  void send(int damaged_byte = -1) const {
    sockaddr_in6 own{};
    socklen_t own_bytes = sizeof own;
    getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_bytes);
    const Gid here = loopback(false, 1);
    uint8_t packet[2048];
    const size_t bytes =
        roce::PacketWriter(roce::Envelope{here, here, ntohs(own.sin6_port)}).write(packet, headers, payload);
    if (damaged_byte >= 0) packet[damaged_byte] ^= 1;
    const sockaddr_in6 to = wire::udp::address_of(here, roce::kRocePort, 0);
    sendto(socket, packet, bytes, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
};

TEST(GeneralServices, TakeNothingElse) {
  run_in_private_network([] {
    if (!set_interface("lo", IFF_UP, nullptr)) return 1;
    Host host;
    const auto wrong = [](const std::function<void(Stranger&)>& change) {
      Stranger stranger;
      change(stranger);
      stranger.send();
    };
    wrong([](Stranger& s) { s.headers.deth.qkey = 0x01234567; });
    wrong([](Stranger& s) { s.headers.bth.destination = 2; });
    wrong([](Stranger& s) { s.headers.bth.pkey = 0x1234; });
    wrong([](Stranger& s) { s.payload.resize(roce::kMadBytes - 1); });
    wrong([](Stranger& s) { s.payload.resize(roce::kMadBytes + 4); });
    wrong([](Stranger& s) { s.payload.clear(); });
    wrong([](Stranger& s) {
      s.headers.bth.opcode = roce::opcode(roce::Transport::kUd, roce::Operation::kSendOnlyImmediate);
    });
    wrong([](Stranger& s) {
      s.headers.bth.opcode = roce::opcode(roce::Transport::kRc, roce::Operation::kSendOnly);
    });
    Stranger stranger;
    for (const int byte : {0, 5, 30, 100, 275, 279}) stranger.send(byte);
    stranger.headers.bth.pkey = 0x7fff;  // of a limited member
    stranger.send();
    return host.await(1) && host.kept[0].mad[0] == 7 ? 0 : 2;
  });
}

}  // namespace
}  // namespace verbatim::agent
