// SPDX-License-Identifier: MIT
#include "tests/fuzz/wire_attacker.h"

#include <sys/socket.h>

#include <algorithm>

#include "wire/format/datagram.h"
#include "wire/link/udp/port_socket.h"

namespace verbatim::fuzz {

namespace {

using roce::Operation;
using roce::Transport;

constexpr uint32_t kMtu = 1024;

uint64_t address_of(const ibv_mr* mr) { return reinterpret_cast<uint64_t>(mr->addr); }

}  // namespace

Attacker::Attacker(Random& random, Victim& victim, uint8_t number)
    : random_(random),
      victim_(victim),
      source_(host(number)),
      socket_(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  const int off = 0;
  setsockopt(socket_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const int dont_fragment = IP_PMTUDISC_DO;
  setsockopt(socket_, IPPROTO_IP, IP_MTU_DISCOVER, &dont_fragment, sizeof dont_fragment);
  sockaddr_in6 own = wire::udp::address_of(source_, 0, 0);
  socklen_t bytes = sizeof own;
  expect(bind(socket_, reinterpret_cast<sockaddr*>(&own), bytes) == 0, "an address cannot be bound");
  getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &bytes);
  port_ = ntohs(own.sin6_port);
}

void Attacker::put(const uint8_t* packet, size_t bytes) {
  const sockaddr_in6 to = wire::udp::address_of(host(kVictim), 4791, 0);
  (void)sendto(socket_, packet, bytes, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

void Attacker::send(const roce::Headers& headers, std::span<const uint8_t> payload) {
  std::vector<uint8_t> packet(roce::kPacketBytesMax + 4096);
  const roce::PacketWriter writer(roce::Envelope{source_, host(kVictim), port_});
  put(packet.data(), writer.write(packet, headers, payload));
}

void Attacker::send_roughly(const roce::Headers& headers, std::span<const uint8_t> payload) {
  std::vector<uint8_t> packet(roce::kPacketBytesMax + 4096);
  const roce::PacketWriter writer(roce::Envelope{source_, host(kVictim), port_});
  size_t bytes = writer.write(packet, headers, payload);
  if (random_.one_in(10) && bytes > 0)
    packet[random_.below(static_cast<uint32_t>(bytes))] ^= 1u << random_.below(8);
  if (random_.one_in(20)) bytes = random_.below(static_cast<uint32_t>(bytes + 1));
  put(packet.data(), bytes);
}

std::vector<uint8_t> Attacker::noise(size_t bytes) {
  std::vector<uint8_t> made(bytes);
  random_.fill(made.data(), bytes);
  return made;
}

void Attacker::send_any(bool to_datagrams) {
  const roce::Headers headers = any_headers(to_datagrams);
  send_roughly(headers, noise(any_payload(headers)));
}

// Where it goes, and what it names there.
void Attacker::aim(roce::Headers& headers, bool to_datagrams) {
  headers.bth.psn = near(kPsn + psn_) & roce::kNumberMask;
  if (random_.one_in(2)) psn_++;
  if (random_.one_in(200)) psn_ = 0;
  headers.deth = {random_.one_in(8) ? random_.below(UINT32_MAX) : kQkey, random_.below(1 << 24)};
  // Whoever has the key of a target may talk to it.
  const uint64_t access_key = to_datagrams && !random_.one_in(8) ? kAccessKey : random_.next();
  headers.dceth = {access_key, 5 + random_.below(3), 0x123400 + random_.below(4),
                   near(headers.bth.psn) & roce::kNumberMask};
  headers.xrceth = {random_.one_in(8) ? random_.below(1 << 24) : victim_.extended_queue};
  headers.feth = {static_cast<uint8_t>(random_.below(4)), static_cast<uint8_t>(random_.below(4))};
  const ibv_mr* mr = random_.one_in(2) ? victim_.writable : victim_.read_only;
  const uint64_t base = address_of(mr);
  const uint64_t address =
      random_.one_in(3) ? base - 100 + random_.below(200) : base + random_.below(kPart + 64);
  const uint32_t rkey = random_.one_in(16) ? random_.below(UINT32_MAX) : mr->rkey;
  headers.reth = {address, rkey, random_.one_in(8) ? random_.below(UINT32_MAX) : random_.below(3000)};
  headers.atomic = {address & ~uint64_t{random_.one_in(8) ? 0u : 7u}, rkey, random_.next(), random_.next()};
  headers.invalidate = {rkey == victim_.writable->rkey && !random_.one_in(100) ? 0 : rkey};
  if (!to_datagrams && headers.bth.destination == victim_.datagrams->qp_num) headers.bth.destination = 0;
}

roce::Headers Attacker::any_headers(bool to_datagrams) {
  roce::Headers headers;
  const ibv_qp* qps[] = {victim_.connected, victim_.unreliable, victim_.dynamic, victim_.extended,
                         victim_.datagrams};
  const uint32_t which = random_.below(to_datagrams ? 5 : 4);
  const Transport transports[] = {Transport::kRc, Transport::kUc, Transport::kDc, Transport::kXrc,
                                  Transport::kUd};
  do {
    const auto code = static_cast<uint8_t>(random_.below(32) | static_cast<uint8_t>(transports[which]));
    headers.bth.opcode = static_cast<roce::Opcode>(random_.one_in(50) ? random_.below(256) : code);
  } while (!headers.info().known);
  headers.bth.destination = random_.one_in(30) ? random_.below(1 << 24) : qps[which]->qp_num;
  aim(headers, to_datagrams);
  headers.bth.ack_request = random_.one_in(2);
  headers.bth.solicited = random_.one_in(4);
  headers.aeth = {static_cast<roce::AckKind>(random_.below(4)), static_cast<uint8_t>(random_.below(32)),
                  random_.below(1 << 24)};
  if (random_.one_in(2)) headers.aeth = roce::Aeth::ack(1);
  headers.atomic_ack = {random_.next()};
  headers.immediate = {random_.below(UINT32_MAX)};
  return headers;
}

size_t Attacker::any_payload(const roce::Headers& headers) {
  switch (headers.info().payload) {
    case roce::PayloadRule::kNone:
      return random_.one_in(30) ? 4 : 0;
    case roce::PayloadRule::kEight:
      return 8;
    case roce::PayloadRule::kSixteen:
      return 16;
    case roce::PayloadRule::kAny:
    case roce::PayloadRule::kUnpadded:
      break;
  }
  if (random_.one_in(2)) return kMtu;
  return headers.has(roce::kReth) && random_.one_in(2) ? std::min<size_t>(headers.reth.length, 4096)
                                                       : random_.below(2000);
}

void Attacker::send_captured(const std::vector<testing::Golden>& captured, bool to_datagrams) {
  const auto& bytes = captured[random_.below(static_cast<uint32_t>(captured.size()))].bytes;
  const auto datagram = roce::Datagram::parse(bytes);
  if (!datagram) return;
  const auto packet = roce::Packet::parse(datagram->payload);
  if (!packet || packet->headers.bth.destination == 1) return;
  roce::Headers headers = packet->headers;
  const Transport transport = roce::transport_of(headers.bth.opcode);
  const ibv_qp* to = transport == Transport::kUc    ? victim_.unreliable
                     : transport == Transport::kUd  ? victim_.datagrams
                     : transport == Transport::kXrc ? victim_.extended
                                                    : victim_.connected;
  headers.bth.destination = to->qp_num;
  aim(headers, to_datagrams);
  std::vector<uint8_t> payload(packet->payload.begin(), packet->payload.end());
  for (uint32_t i = random_.below(4); i > 0 && !payload.empty(); i--)
    payload[random_.below(static_cast<uint32_t>(payload.size()))] = static_cast<uint8_t>(random_.next());
  send_roughly(headers, payload);
}

void Attacker::name_forbidden(roce::Reth& reth, bool writes) {
  const ibv_mr* fit = writes ? victim_.writable : victim_.read_only;
  const ibv_mr* unfit = writes ? victim_.read_only : victim_.writable;
  reth.address = address_of(fit) + random_.below(kPart / 2);
  reth.rkey = fit->rkey;
  switch (random_.below(5)) {
    case 0:
      do reth.rkey = random_.one_in(2) ? random_.below(UINT32_MAX) : fit->rkey ^ 1u << random_.below(32);
      while (reth.rkey == victim_.writable->rkey || reth.rkey == victim_.read_only->rkey);
      return;
    case 1:
      reth.rkey = unfit->rkey;
      reth.address = address_of(unfit) + random_.below(kPart / 2);
      return;
    case 2: {
      const ibv_mr* own = random_.one_in(2) ? victim_.receives : victim_.local;
      reth.rkey = own->rkey;
      reth.address = address_of(own) + random_.below(kPart / 2);
      return;
    }
    case 3:  // begins before it
      reth.address = address_of(fit) - 1 - random_.below(reth.length);
      return;
    default:  // ends behind it, also where it begins inside
      reth.address = address_of(fit) + kPart - reth.length + 1 + random_.below(reth.length);
      if (random_.one_in(8)) reth.length = UINT32_MAX - random_.below(1 << 20);
      if (random_.one_in(8)) reth.address = UINT64_MAX - random_.below(4096);
  }
}

void Attacker::send_wrong_key() {
  static constexpr Transport kTransports[] = {Transport::kRc, Transport::kUc, Transport::kDc,
                                              Transport::kXrc};
  const Transport transport = kTransports[random_.below(std::size(kTransports))];
  static constexpr Operation kEach[] = {Operation::kWriteOnly,   Operation::kWriteOnlyImmediate,
                                        Operation::kWriteFirst,  Operation::kReadRequest,
                                        Operation::kCompareSwap, Operation::kFetchAdd,
                                        Operation::kAtomicWrite};
  const uint32_t operations = transport == Transport::kUc ? 3 : transport == Transport::kDc ? 6 : 7;
  const Operation operation = kEach[random_.below(operations)];
  roce::Headers headers;
  headers.bth.opcode = roce::opcode(transport, operation);
  headers.bth.destination = (transport == Transport::kUc    ? victim_.unreliable
                             : transport == Transport::kDc  ? victim_.dynamic
                             : transport == Transport::kXrc ? victim_.extended
                                                            : victim_.connected)
                                ->qp_num;
  headers.bth.psn =
      (kPsn + (transport == Transport::kUc || transport == Transport::kDc ? psn_ : 0)) & roce::kNumberMask;
  headers.bth.ack_request = true;
  const bool atomic = operation == Operation::kCompareSwap || operation == Operation::kFetchAdd;
  const bool first = operation == Operation::kWriteFirst, read = operation == Operation::kReadRequest;
  const bool word = atomic || operation == Operation::kAtomicWrite;
  headers.xrceth = {victim_.extended_queue};
  headers.reth.length = word ? 8 : first ? kMtu + 1 + random_.below(kMtu) : 1 + random_.below(kMtu);
  const uint32_t length = headers.reth.length;
  headers.dceth = {kAccessKey, 1 + psn_, random_.below(1 << 24), headers.bth.psn};
  if (transport == Transport::kDc && random_.one_in(2)) {  // all is right but the key of the target
    headers.dceth.access_key ^= uint64_t{1} << random_.below(64);
    const ibv_mr* mr = read ? victim_.read_only : victim_.writable;
    headers.reth = {address_of(mr) + 8 * random_.below(kPart / 16), mr->rkey, length};
  } else {
    name_forbidden(headers.reth, !read);
  }
  headers.atomic = {headers.reth.address, headers.reth.rkey, random_.next(), random_.next()};
  psn_++;
  send(headers, noise(atomic || read ? 0 : first ? kMtu : length));
  if (!first) return;
  headers.bth.opcode = roce::opcode(transport, Operation::kWriteLast);
  headers.bth.psn = (headers.bth.psn + 1) & roce::kNumberMask;
  psn_++;
  send(headers, noise(length - kMtu));
}

void Attacker::send_to_nobody() {
  roce::Headers headers = any_headers(true);
  const auto known = [&](uint32_t qpn) {
    return qpn <= 1 || qpn == roce::kNumberMask || qpn == victim_.connected->qp_num ||
           qpn == victim_.unreliable->qp_num || qpn == victim_.datagrams->qp_num ||
           qpn == victim_.dynamic->qp_num || qpn == victim_.marker() || qpn == victim_.extended->qp_num;
  };
  do  // of the victim's process, or of none
    headers.bth.destination = random_.one_in(2)
                                  ? random_.below(1 << 24)
                                  : (victim_.connected->qp_num & ~0x3fffu) | random_.below(1 << 14);
  while (known(headers.bth.destination));
  send_roughly(headers, noise(any_payload(headers)));
}

void Attacker::send_right(uint32_t count) {
  right_.clear();
  for (uint32_t i = 0; i < count; i++) {
    Sent next;
    static constexpr Operation kEach[] = {Operation::kWriteOnly, Operation::kSendOnly, Operation::kFetchAdd,
                                          Operation::kReadRequest};
    const Operation operation = kEach[i == count - 1 ? 0 : random_.below(std::size(kEach))];
    const bool atomic = operation == Operation::kFetchAdd, read = operation == Operation::kReadRequest;
    next.headers.bth.opcode = roce::opcode(Transport::kRc, operation);
    next.headers.bth.destination = victim_.connected->qp_num;
    next.headers.bth.psn = (kPsn + i) & roce::kNumberMask;
    next.headers.bth.ack_request = true;
    const ibv_mr* mr = read ? victim_.read_only : victim_.writable;
    next.headers.reth = {address_of(mr) + random_.below(kPart / 2), mr->rkey, 64};
    next.headers.atomic = {next.headers.reth.address & ~uint64_t{7}, mr->rkey, 1 + random_.below(99), 0};
    next.payload = noise(atomic || read ? 0 : 64);
    send(next.headers, next.payload);
    right_.push_back(std::move(next));
  }
  const Sent& last = right_.back();
  victim_.settle();
  expect(std::equal(last.payload.begin(), last.payload.end(),
                    reinterpret_cast<const uint8_t*>(last.headers.reth.address)),
         "right packets do nothing");
}

void Attacker::play_again(Attacker& from) {
  const Sent& next = from.right_[random_.below(static_cast<uint32_t>(from.right_.size()))];
  send(next.headers, next.payload);
}

}  // namespace verbatim::fuzz
