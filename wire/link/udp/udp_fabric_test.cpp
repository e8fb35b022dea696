// SPDX-License-Identifier: MIT
// Two ends over real sockets, in a network of the test's own.
#include "wire/link/udp/udp_fabric.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "testing/private_network.h"
#include "wire/link/udp/port_socket.h"
#include "wire/link/udp/steering.h"

namespace verbatim::wire::udp {
namespace {

using testing_support::run_in_private_network;
using testing_support::set_interface;

Gid ipv4(uint8_t last) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  gid.bytes[12] = 127;
  gid.bytes[15] = last;
  return gid;
}
Gid ipv6_loopback() {
  Gid gid;
  gid.bytes[15] = 1;
  return gid;
}

constexpr uint32_t kQpn = 5u << 14 | 16, kOtherQpn = 6u << 14 | 16;

struct OpenPort final : Neighborhood {
  Expected<PeerHandles> introduce(uint32_t) override { return Error{ESRCH, "nobody"}; }
  uint64_t slot_generation(uint32_t) const override { return 0; }
  bool is_local(const Gid&) const override { return false; }
  uint32_t members(const Gid&, uint32_t*, uint32_t) const override { return 0; }
  Expected<int> open_wire() override { return open_port_socket(); }
};

struct Kept {
  Channel* from;
  Segment segment;
  std::vector<uint8_t> bytes;
};

struct Keeper final : Receiver {
  std::vector<Kept> kept;
  size_t damaged = 0;
  void on_damaged(uint32_t) override { damaged++; }
  void enter() override {}
  void leave() override {}
  bool on_segment(Channel& from, const Segment& segment, Payload& payload, Segment*) override {
    Kept arrival{&from, segment, std::vector<uint8_t>(segment.length)};
    const Piece piece{arrival.bytes.data(), arrival.bytes.size()};
    if (payload.copy_to(0, &piece, 1) == CopyResult::kDone) kept.push_back(std::move(arrival));
    return false;
  }
  void on_room(Channel&) override {}
  void on_gone(Channel&) override {}
};

/// Takes what is passed on.
struct Neighbor final : Owners {
  struct Way : Channel {
    std::vector<Segment> got;
    uint32_t payload_max(bool) const override { return 4096; }
    SendResult send(const Segment& segment, const Piece*, uint32_t, bool, Segment*) override {
      got.push_back(segment);
      return SendResult::kAccepted;
    }
    void forbid_pull() override {}
    bool alive() override { return true; }
    bool lossless() const override { return true; }
    void nudge() override {}
    const std::byte* published() const override { return nullptr; }
    const std::byte* testament() const override { return nullptr; }
    uint32_t enter_access() override { return 0; }
    void leave_access(uint32_t) override {}
    bool write_direct(uint64_t, const Piece*, uint32_t) override { return false; }
    bool read_direct(uint64_t, const Piece*, uint32_t) override { return false; }
  } way;
  bool is_own(uint32_t qpn) const override { return qpn == kQpn; }
  Channel* other_owner(uint32_t qpn) override { return qpn == kOtherQpn ? &way : nullptr; }
};

struct End {
  SystemClock clock;
  OpenPort port;
  Neighbor owners;
  tap::Switch active;
  tap::Tap tap{active, clock};
  UdpFabric fabric{port, owners, tap, clock};
  Keeper keeper;

  /// Until so many packets have come, or a second has passed.
  bool await(size_t packets) {
    const uint64_t until = clock.now_ns() + 1'000'000'000;
    while (keeper.kept.size() < packets && clock.now_ns() < until) {
      pollfd file{fabric.file(), POLLIN, 0};
      poll(&file, 1, 10);
      fabric.poll(keeper, 256);
    }
    return keeper.kept.size() == packets;
  }
};

Segment message(Operation operation, uint32_t length, uint32_t mtu, const Gid& from, const Gid& to) {
  Segment segment;
  segment.operation = operation;
  segment.flags = kFirst | kLast | kAckRequest;
  segment.dest_qpn = kQpn;
  segment.src_qpn = 7u << 14 | 16;
  segment.psn = 0xfffff0;
  segment.length = segment.total_length = length;
  segment.path_mtu = mtu;
  segment.packets = (length + mtu - 1) / mtu;
  segment.remote_address = 0x1122334455667788;
  segment.rkey = 0x99aabbcc;
  segment.source_gid = from;
  segment.dest_gid = to;
  segment.flow_label = 0x12345;
  segment.traffic_class = 0x68;
  segment.hop_limit = 33;
  return segment;
}

std::vector<uint8_t> some_bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; i++) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251);
  return bytes;
}

/// A message out of two pieces arrives as its packets.
int exchange(Operation operation, uint32_t length, uint32_t mtu, const Gid& from, const Gid& to) {
  End end;
  Channel* channel = end.fabric.channel(to);
  if (!channel) return 1;
  const bool known = end.fabric.channel(from) != nullptr;
  std::vector<uint8_t> bytes = some_bytes(length);
  const size_t half = length / 3;
  const Piece pieces[2] = {{bytes.data(), half}, {bytes.data() + half, length - half}};
  const Segment sent = message(operation, length, mtu, from, to);
  if (channel->send(sent, pieces, 2, false, nullptr) != SendResult::kAccepted) return 2;
  if (!end.await(sent.packets)) return 3;
  uint32_t offset = 0;
  for (const Kept& got : end.keeper.kept) {
    const Segment& s = got.segment;
    if (s.operation != operation || s.psn != psn_add(sent.psn, offset / mtu)) return 4;
    if (s.length != std::min(mtu, length - offset)) return 5;
    if (std::memcmp(got.bytes.data(), bytes.data() + offset, s.length) != 0) return 6;
    if (s.source_gid != from || s.dest_gid != to || s.gid_type != GidType::kRoceV2) return 7;
    if (s.traffic_class != 0x68 || s.hop_limit != 33) return 8;
    if (known != (got.from == end.fabric.channel(from))) return 9;
    offset += s.length;
  }
  return offset == length ? 0 : 10;
}

bool start_network() { return set_interface("lo", IFF_UP, nullptr); }

TEST(UdpFabric, CarriesMessagesOfAnySize) {
  run_in_private_network([] {
    if (!start_network()) return 1;
    int step = 0;
    for (const auto& [from, to] : {std::pair{ipv4(1), ipv4(2)}, std::pair{ipv6_loopback(), ipv6_loopback()}})
      for (const Operation operation : {Operation::kSend, Operation::kWrite})
        for (const uint32_t mtu : {256u, 1024u, 4096u})
          for (const uint32_t length : {1u, 255u, 4096u, 4097u, 61440u}) {
            step++;
            if (exchange(operation, length, mtu, from, to) != 0) return step + 1;
          }
    return 0;
  });
}

TEST(UdpFabric, SaysWhereFromEvenIfNobodyAsked) {
  run_in_private_network([] {
    if (!start_network()) return 1;
    End end;
    Channel* channel = end.fabric.channel(ipv4(2));
    const Segment sent = message(Operation::kAck, 0, 1024, ipv4(3), ipv4(2));
    if (!channel || channel->send(sent, nullptr, 0, false, nullptr) != SendResult::kAccepted) return 2;
    if (!end.await(1)) return 3;
    Channel* stranger = end.keeper.kept[0].from;
    if (stranger == channel || !stranger->is_wire() || end.keeper.kept[0].segment.source_gid != ipv4(3))
      return 4;
    // It leads to whom segments name.
    Segment answer = message(Operation::kAck, 0, 1024, ipv4(2), ipv4(3));
    if (stranger->send(answer, nullptr, 0, false, nullptr) != SendResult::kAccepted) return 5;
    return end.await(2) && end.keeper.kept[1].segment.dest_gid == ipv4(3) ? 0 : 6;
  });
}

TEST(UdpFabric, PassesOnWhatIsForAnother) {
  run_in_private_network([] {
    if (!start_network()) return 1;
    End end;
    Channel* channel = end.fabric.channel(ipv4(2));
    Segment sent = message(Operation::kAck, 0, 1024, ipv4(3), ipv4(2));
    for (const uint32_t qpn : {kOtherQpn, kQpn + (20u << 14)}) {
      sent.dest_qpn = qpn;
      if (!channel || channel->send(sent, nullptr, 0, false, nullptr) != SendResult::kAccepted) return 2;
    }
    sent.dest_qpn = kQpn;
    channel->send(sent, nullptr, 0, false, nullptr);
    if (!end.await(1) || end.owners.way.got.size() != 1) return 3;
    const Segment& passed = end.owners.way.got[0];
    return passed.has(kPassedOn) && passed.source_gid == ipv4(3) && passed.dest_qpn == kOtherQpn ? 0 : 4;
  });
}

TEST(UdpFabric, DropsWhatIsNotWhole) {
  run_in_private_network([] {
    if (!start_network()) return 1;
    End end;
    if (!end.fabric.open()) return 2;
    const Expected<int> from = open_sending_socket();
    sockaddr_in6 own{};
    socklen_t own_bytes = sizeof own;
    getsockname(*from, reinterpret_cast<sockaddr*>(&own), &own_bytes);
    const roce::PacketWriter writer(roce::Envelope{ipv4(1), ipv4(1), ntohs(own.sin6_port)});
    roce::Headers headers;
    headers.bth.opcode = roce::opcode(roce::Transport::kRc, roce::Operation::kSendOnly);
    headers.bth.destination = kQpn;
    uint8_t packet[128];
    const size_t bytes = writer.write(packet, headers, some_bytes(64));
    const sockaddr_in6 to = address_of(ipv4(1), 4791, 0);
    const auto put = [&](size_t count) {
      return sendto(*from, packet, count, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to) > 0;
    };
    for (size_t bit = 0; bit < bytes * 8; bit++) {
      if (bit / 8 == 4) continue;  // not covered
      packet[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      if (!put(bytes)) return 3;
      packet[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      end.fabric.poll(end.keeper, 256);
    }
    for (size_t count = 1; count < bytes; count++) put(count);
    put(bytes);
    if (!end.await(1)) return 4;
    return end.keeper.damaged >= 64 * 8 ? 0 : 5;  // at least those of the payload
  });
}

/// The PSNs, from 0 on, of what comes of eight packets that are sent one by one.
std::vector<uint32_t> arrivals(const char* rules, size_t expected, bool in_one_segment = false) {
  End end;
  end.tap.add_own(*tap::parse_rules(rules, 1));
  Channel* channel = end.fabric.channel(ipv4(2));
  const std::vector<uint8_t> bytes = some_bytes(8 * 256);
  Segment sent = message(Operation::kSend, in_one_segment ? 8 * 256 : 256, 256, ipv4(1), ipv4(2));
  const Piece piece{const_cast<uint8_t*>(bytes.data()), sent.length};
  for (sent.psn = 0; sent.psn < (in_one_segment ? 1 : 8); sent.psn++)
    if (channel->send(sent, &piece, 1, false, nullptr) != SendResult::kAccepted) return {1000};
  if (!end.await(expected)) return {2000};
  std::vector<uint32_t> psns;
  for (const Kept& kept : end.keeper.kept) psns.push_back(kept.segment.psn);
  return psns;
}

TEST(UdpFabric, RulesDamageEachPacketBothWays) {
  run_in_private_network([] {
    using Psns = std::vector<uint32_t>;
    if (!start_network()) return 1;
    const Psns all{0, 1, 2, 3, 4, 5, 6, 7}, without{0, 1, 3, 4, 5, 6, 7}, doubled{0, 1, 2, 2, 3, 4, 5, 6, 7};
    int step = 1;
    for (const std::string direction : {",direction=out", ",direction=in"}) {
      for (const bool in_one : {false, true}) {
        const auto came = [&](const char* rule, size_t count) {
          return arrivals((rule + direction).c_str(), count, in_one);
        };
        step += 10;
        if (came("drop=1,nth=3", 7) != without) return step + 1;
        if (came("corrupt=1,nth=3", 7) != without) return step + 2;
        if (came("duplicate=1,nth=3", 9) != doubled) return step + 3;
        Psns late = came("delay=1ms,nth=3", 8);
        if (late.back() != 2) return step + 4;
        Psns overtaken = came("reorder=1,nth=3", 8);
        if (overtaken == all || overtaken[2] != 3) return step + 5;
        std::sort(overtaken.begin(), overtaken.end());
        if (overtaken != all) return step + 6;
        if (came("drop=1,opcode=ack", 8) != all) return step + 7;
      }
    }
    return 0;
  });
}

TEST(UdpFabric, SaysWhatStandsInTheWay) {
  run_in_private_network([] {
    if (!start_network()) return 1;
    struct Closed final : Neighborhood {
      Expected<PeerHandles> introduce(uint32_t) override { return Error{ESRCH, "nobody"}; }
      uint64_t slot_generation(uint32_t) const override { return 0; }
      bool is_local(const Gid&) const override { return false; }
      uint32_t members(const Gid&, uint32_t*, uint32_t) const override { return 0; }
    } closed;
    SystemClock clock;
    Neighbor owners;
    tap::Switch active;
    tap::Tap tap(active, clock);
    UdpFabric fabric(closed, owners, tap, clock);
    if (fabric.channel(ipv4(2)) || fabric.file() >= 0) return 2;
    if (fabric.obstacle(ipv4(2)) != "there is no way to other hosts here") return 3;
    End end;
    Gid away = ipv4(2);
    away.bytes[12] = 10;
    Channel* channel = end.fabric.channel(away);
    const Segment sent = message(Operation::kAck, 0, 1024, ipv4(1), away);
    channel->send(sent, nullptr, 0, false, nullptr);
    return end.fabric.obstacle(away).rfind("the network refuses packets to it: ", 0) == 0 ? 0 : 4;
  });
}

}  // namespace
}  // namespace verbatim::wire::udp
