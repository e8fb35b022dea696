// SPDX-License-Identifier: MIT
// Packets and connection manager messages: made from random values, taken from captures, and both damaged. A
// parser may refuse what it likes but reads no byte beyond the end, and what it takes is written again as the
// same bytes, reserved bits aside, which then mean the same. usage: packet_fuzz [--seconds N] [--first SEED]
// [--seed SEED] [--canary]
//   --seed     that case alone
//   --canary   damages what was written now and then: a run that does not fail finds nothing
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "testing/golden.h"
#include "tests/fuzz/options.h"
#include "tests/fuzz/random.h"
#include "wire/format/cm.h"
#include "wire/format/cm_service.h"
#include "wire/format/datagram.h"
#include "wire/format/packet.h"

using namespace verbatim;
using namespace verbatim::roce;
using fuzz::Random;
using Buffer = std::vector<uint8_t>;

namespace {

constexpr uint64_t kEnoughCases = 100'000;  ///< after so many, each opcode and message has been taken

struct Tally {
  uint64_t taken = 0, refused = 0;
  std::array<uint64_t, 256> opcodes{};
  std::array<uint64_t, std::variant_size_v<cm::Body>> messages{};
};

struct Case {
  Random random;
  uint64_t seed;
  bool canary;
  Tally& tally;

  [[noreturn]] void fail(const char* what) const {
    std::fprintf(stderr, "FAILED seed %llu: %s\n", static_cast<unsigned long long>(seed), what);
    std::exit(1);
  }
  void expect(bool right, const char* what) const {
    if (!right) fail(what);
  }
  /// What was just written, on its way to be looked at.
  void touch(std::span<uint8_t> written) {
    if (canary && random.one_in(1000)) damage_bit(written);
  }
  void damage_bit(std::span<uint8_t> bytes) {
    if (bytes.empty()) return;
    const uint32_t bit = random.below(static_cast<uint32_t>(bytes.size() * 8));
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ 1 << bit % 8);
  }
};

/// A copy with nothing readable behind it, as far as a sanitizer can tell.
struct Exact {
  explicit Exact(std::span<const uint8_t> bytes) : memory(new uint8_t[bytes.size()]), size(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), memory.get());
  }
  std::span<const uint8_t> span() const { return {memory.get(), size}; }
  std::unique_ptr<uint8_t[]> memory;
  size_t size;
};

/// The bits that a record has fields for.
template <class T>
void add_fields(bool present, Buffer& mask) {
  if (!present) return;
  std::array<uint8_t, T::Layout::kBytes> ones;
  ones.fill(0xff);
  const size_t at = mask.size();
  mask.resize(at + ones.size());
  T::Layout::emit(T::Layout::template parse<T>(ones).value(), std::span(mask).subspan(at));
}

Buffer fields_of(const OpcodeInfo& info) {
  Buffer mask;
  add_fields<Bth>(true, mask);
  add_fields<DcEth>(info.headers & kDcEth, mask);
  add_fields<XrcEth>(info.headers & kXrcEth, mask);
  add_fields<Deth>(info.headers & kDeth, mask);
  add_fields<Feth>(info.headers & kFeth, mask);
  add_fields<Reth>(info.headers & kReth, mask);
  add_fields<AtomicEth>(info.headers & kAtomicEth, mask);
  add_fields<Aeth>(info.headers & kAeth, mask);
  add_fields<AtomicAckEth>(info.headers & kAtomicAckEth, mask);
  add_fields<ImmDt>(info.headers & kImmDt, mask);
  add_fields<Ieth>(info.headers & kIeth, mask);
  return mask;
}

bool equal_under(std::span<const uint8_t> one, std::span<const uint8_t> other, const Buffer& mask) {
  for (size_t i = 0; i < mask.size(); i++)
    if ((one[i] & mask[i]) != other[i]) return false;
  return true;
}

Envelope any_envelope(Random& random) {
  Envelope envelope;
  random.fill(&envelope, sizeof envelope);
  envelope.dont_fragment = random.one_in(2);
  for (Gid* gid : {&envelope.source, &envelope.destination}) gid->bytes[0] = 0xfd;
  if (random.one_in(2))
    for (Gid* gid : {&envelope.source, &envelope.destination})
      std::fill_n(gid->bytes.begin(), 10, 0), gid->bytes[10] = gid->bytes[11] = 0xff;
  else
    envelope.identification = 0, envelope.dont_fragment = true;
  return envelope;
}

/// A value of any bits, which the record's fields have room for.
template <class T>
void fill(Random& random, T& value) {
  std::array<uint8_t, T::Layout::kBytes> bytes;
  random.fill(bytes.data(), bytes.size());
  value = T::Layout::template parse<T>(bytes).value();
}

Headers any_headers(Random& random) {
  Headers headers;
  fill(random, headers.bth), fill(random, headers.dceth), fill(random, headers.xrceth), fill(random, headers.deth),
      fill(random, headers.feth);
  fill(random, headers.reth), fill(random, headers.atomic), fill(random, headers.aeth);
  fill(random, headers.atomic_ack), fill(random, headers.immediate), fill(random, headers.invalidate);
  headers.bth.version = 0;
  do headers.bth.opcode = static_cast<Opcode>(random.below(256));
  while (!headers.info().known);
  return headers;
}

size_t any_payload_bytes(Random& random, PayloadRule rule) {
  const uint32_t bytes = random.below(random.one_in(4) ? kPathMtuMax + 1 : 100);
  switch (rule) {
    case PayloadRule::kNone:
      return 0;
    case PayloadRule::kUnpadded:
      return std::max<uint32_t>(4, bytes & ~3u);
    case PayloadRule::kEight:
      return 8;
    case PayloadRule::kSixteen:
      return 16;
    case PayloadRule::kAny:
      break;
  }
  return bytes;
}

void look_at_datagram(Case& now, std::span<const uint8_t> bytes) {
  const Exact exact(bytes);
  const auto packet = Packet::parse(exact.span());
  if (!packet) {
    now.tally.refused++;
    now.expect(packet.reason()[0] != 0, "refused without a reason");
    return;
  }
  now.tally.taken++;
  now.tally.opcodes[static_cast<uint8_t>(packet->headers.bth.opcode)]++;
  const OpcodeInfo& info = packet->headers.info();
  const size_t payload_at = info.header_bytes;
  now.expect(packet->payload.data() == exact.memory.get() + payload_at, "the payload is elsewhere");
  now.expect(payload_at + packet->payload.size() + packet->headers.bth.pad + kIcrcBytes == exact.size,
             "the parts are not the whole");

  const Envelope envelope = any_envelope(now.random);
  Buffer again(exact.size, 0xa5);
  const size_t written = PacketWriter(envelope).write(again, packet->headers, packet->payload);
  now.touch(again);
  now.expect(written == exact.size, "written again it has another length");
  now.expect(equal_under(exact.span(), again, fields_of(info)), "written again its headers differ");
  now.expect(std::equal(packet->payload.begin(), packet->payload.end(),
                        again.begin() + static_cast<long>(payload_at)),
             "written again its payload differs");
  now.expect(check_icrc(envelope, again, true).right, "written again its ICRC is wrong");
  const auto back = Packet::parse(again);
  now.expect(back.ok() && back->headers == packet->headers, "written again it means something else");
}

void look_at_message(Case& now, std::span<const uint8_t> bytes) {
  const Exact exact(bytes);
  const auto message = cm::Message::parse(exact.span());
  if (!message) {
    now.tally.refused++;
    return;
  }
  now.tally.taken++;
  now.tally.messages[message->body.index()]++;
  Buffer mask;
  add_fields<MadHeader>(true, mask);
  std::visit([&](const auto& body) { add_fields<std::decay_t<decltype(body)>>(true, mask); }, message->body);
  Buffer again(kMadBytes, 0xa5);
  message->emit(again);
  now.touch(again);
  now.expect(equal_under(exact.span(), again, mask), "a message written again differs");
  const auto back = cm::Message::parse(again);
  now.expect(back.ok() && *back == *message, "a message written again means something else");
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { body.known_info(); })
          now.expect(body.known_info().size() <= body.info.size(), "more information than there is room for");
        const auto header = cm::ServiceHeader::parse(body.private_data);
        if (!header) return;
        std::array<uint8_t, cm::ServiceHeader::kBytes> bytes_again;
        header->emit(bytes_again);
        const auto header_back = cm::ServiceHeader::parse(bytes_again);
        now.expect(header_back.ok() && *header_back == *header, "a service header means something else");
      },
      message->body);
}

void look_at_ip_packet(Case& now, std::span<const uint8_t> bytes) {
  const Exact exact(bytes);
  const auto datagram = Datagram::parse(exact.span());
  if (!datagram) {
    now.tally.refused++;
    return;
  }
  const size_t header_bytes = datagram->header_bytes();
  now.expect(datagram->payload.data() == exact.memory.get() + header_bytes, "the datagram is elsewhere");
  now.expect(header_bytes + datagram->payload.size() <= exact.size, "the datagram is longer than its packet");
  Buffer again(header_bytes, 0xa5);
  now.expect(datagram->emit_headers(again) == header_bytes, "IP headers of another length");
  now.touch(again);
  // The reserved flag of IPv4 is written as 0, and changes the checksum.
  if (!(datagram->envelope.is_ipv4() && exact.span()[6] & 0x80))
    now.expect(std::equal(again.begin(), again.end(), exact.memory.get()), "IP headers written again differ");
  look_at_datagram(now, datagram->payload);
  const auto packet = Packet::parse(datagram->payload);
  if (packet && packet->headers.bth.destination == kGeneralServicesQpn) look_at_message(now, packet->payload);
}

Buffer made_packet(Case& now) {
  const Headers headers = any_headers(now.random);
  Buffer payload(any_payload_bytes(now.random, headers.info().payload));
  now.random.fill(payload.data(), payload.size());
  Datagram datagram;
  datagram.envelope = any_envelope(now.random);
  datagram.traffic_class = static_cast<uint8_t>(now.random.next());
  Buffer packet(datagram.header_bytes() + kPacketBytesMax, 0xa5);
  const auto room = std::span(packet).subspan(datagram.header_bytes());
  const size_t bytes = PacketWriter(datagram.envelope).write(room, headers, payload);
  now.expect(bytes != 0, "a packet that cannot be written");
  datagram.payload = room.first(bytes);
  datagram.emit_headers(packet);
  now.expect(Packet::parse(datagram.payload).ok(), "a packet that was written is refused");
  packet.resize(datagram.header_bytes() + bytes);
  return packet;
}

Buffer made_message(Case& now) {
  Buffer mad(kMadBytes);
  now.random.fill(mad.data(), mad.size());
  MadHeader header;
  fill(now.random, header);
  header.base_version = MadHeader::kBaseVersion;
  header.management_class = MadHeader::kCmClass;
  header.class_version = MadHeader::kCmClassVersion;
  header.method = MadHeader::kSend;
  header.attribute = static_cast<uint16_t>(0x10 + now.random.below(11));
  header.emit(mad);
  if (now.random.one_in(4)) mad[MadHeader::kBytes + 140] = 0, mad[MadHeader::kBytes + 141] = 0x40;
  return mad;
}

void damage(Case& now, Buffer& bytes) {
  Random& random = now.random;
  for (uint32_t count = random.below(4); count != 0; count--) now.damage_bit(bytes);
  // Where headers are.
  if (random.one_in(2) && bytes.size() > 100) now.damage_bit(std::span(bytes).first(100));
  if (random.one_in(4)) bytes.resize(random.below(static_cast<uint32_t>(bytes.size()) + 1));
  if (random.one_in(8)) bytes.resize(bytes.size() + random.below(16));
}

void set_right_lengths(Buffer& bytes) {
  auto ip = Ipv4::parse(bytes);
  if (!ip || ip->version != 4) return;
  ip->length = static_cast<uint16_t>(bytes.size());
  ip->checksum = ip->right_checksum();
  ip->emit(bytes);
  const auto behind = std::span(bytes).subspan(Ipv4::kBytes);
  auto udp = Udp::parse(behind);
  if (!udp) return;
  udp->length = static_cast<uint16_t>(behind.size());
  udp->emit(behind);
}

void run_case(uint64_t seed, bool canary, const std::vector<testing::Golden>& captured, Tally& tally) {
  Case now{Random(seed), seed, canary, tally};
  if (now.random.one_in(4)) {
    Buffer mad = made_message(now);
    if (now.random.one_in(4)) damage(now, mad);
    return look_at_message(now, mad);
  }
  Buffer packet = now.random.one_in(2) && !captured.empty()
                      ? captured[now.random.below(static_cast<uint32_t>(captured.size()))].bytes
                      : made_packet(now);
  if (!now.random.one_in(4)) {
    damage(now, packet);
    if (!now.random.one_in(4)) set_right_lengths(packet);
  }
  look_at_ip_packet(now, packet);
}

/// False: the noise gets nowhere.
bool reached_everything(const Tally& tally) {
  for (int byte = 0; byte < 256; byte++)
    if (info_of(static_cast<Opcode>(byte)).known && tally.opcodes[static_cast<size_t>(byte)] == 0)
      return false;
  return std::find(tally.messages.begin(), tally.messages.end(), 0u) == tally.messages.end();
}

}  // namespace

int main(int argc, char** argv) {
  const fuzz::Options options(argc, argv, 5);
  const bool canary = options.has("--canary");
  const auto captured = testing::read_golden(VERBATIM_GOLDEN);
  Tally tally;
  const uint64_t cases =
      options.play("packet_fuzz", [&](uint64_t seed) { run_case(seed, canary, captured, tally); });
  std::printf("packet_fuzz: %llu cases, %llu taken, %llu refused\n", static_cast<unsigned long long>(cases),
              static_cast<unsigned long long>(tally.taken), static_cast<unsigned long long>(tally.refused));
  if (cases >= kEnoughCases && !reached_everything(tally)) {
    std::fprintf(stderr, "FAILED: some opcode or message was never taken\n");
    return 1;
  }
  return 0;
}
