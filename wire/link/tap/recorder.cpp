// SPDX-License-Identifier: MIT
#include "wire/link/tap/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/fault_copy.h"
#include "wire/format/datagram.h"
#include "wire/format/packet.h"
#include "wire/link/roce/conversion.h"

namespace verbatim::wire::tap {

namespace {

constexpr size_t kEthernetBytes = 14;
constexpr size_t kHeadBytesMax = kEthernetBytes + roce::Ipv6::kBytes + roce::Udp::kBytes;
constexpr size_t kFrameBytesMax = kHeadBytesMax + roce::kPacketBytesMax + 64;
constexpr uint8_t kHopLimit = 64;  ///< what hosts send with unless they are told otherwise
constexpr uint16_t kPortsFrom = 0xc000;

using Frame = std::array<uint8_t, kFrameBytesMax>;

/// What a host with this address would have: of its own making (the second lowest bit), with the address in
/// it; of groups as the network has them (RFC 1112, 2464).
void put_mac(const Gid& gid, uint8_t* to) {
  const uint8_t* address = gid.bytes.data() + 12;
  if (gid.is_ipv4_mapped() && address[0] >= 224 && address[0] < 240) {
    const uint8_t group[6] = {1, 0, 0x5e, static_cast<uint8_t>(address[1] & 0x7f), address[2], address[3]};
    std::memcpy(to, group, sizeof group);
    return;
  }
  to[0] = gid.is_multicast() ? 0x33 : 2;
  to[1] = gid.is_multicast() ? 0x33 : 0;
  std::memcpy(to + 2, address, 4);
}

/// The sum of 16-bit words (RFC 1071), as in memory.
uint64_t sum_of(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4) {
    uint32_t word;
    std::memcpy(&word, bytes.data() + at, 4);
    sum += word;
  }
  for (; at < bytes.size(); at += 2) {
    uint16_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<size_t>(2, bytes.size() - at));
    sum += word;
  }
  return sum;
}

uint16_t folded(uint64_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

/// IPv6 wants it. `ip`: the header, UDP's and what follows; the field is 0.
void put_udp_checksum(std::span<uint8_t> ip) {
  const std::span<uint8_t> udp = ip.subspan(roce::Ipv6::kBytes);
  const uint8_t rest[4] = {static_cast<uint8_t>(udp.size() >> 8), static_cast<uint8_t>(udp.size()), 0,
                           roce::kUdpProtocol};
  const uint64_t sum = sum_of(ip.subspan(8, 32)) + sum_of(rest) + sum_of(udp);
  auto checksum = static_cast<uint16_t>(~folded(sum));
  if (checksum == 0) checksum = 0xffff;
  std::memcpy(udp.data() + 6, &checksum, sizeof checksum);
}

/// What stands before the datagram, which may lie behind it already. Bytes, 0: no room.
size_t put_head(const Travel& travel, std::span<const uint8_t> datagram, std::span<uint8_t> frame) {
  roce::Datagram all;
  all.envelope = travel.envelope;
  all.traffic_class = travel.traffic_class;
  all.hop_limit = travel.hop_limit != 0 ? travel.hop_limit : kHopLimit;
  all.flow_label = travel.flow_label & 0xfffff;
  all.payload = datagram;
  put_mac(travel.envelope.destination, frame.data());
  put_mac(travel.envelope.source, frame.data() + 6);
  const bool ipv4 = travel.envelope.is_ipv4();
  frame[12] = ipv4 ? 0x08 : 0x86;
  frame[13] = ipv4 ? 0x00 : 0xdd;
  const size_t bytes = all.emit_headers(frame.subspan(kEthernetBytes));
  return bytes == 0 ? 0 : kEthernetBytes + bytes;
}

size_t head_bytes(const roce::Envelope& envelope) {
  return kEthernetBytes + (envelope.is_ipv4() ? roce::Ipv4::kBytes : roce::Ipv6::kBytes) + roce::Udp::kBytes;
}

/// As hosts choose them: the same for all packets of a connection in one direction.
uint16_t source_port(const Segment& segment) {
  const uint32_t mixed = (segment.src_qpn * 0x9e3779b1u) ^ (segment.dest_qpn * 0x85ebca6bu);
  return static_cast<uint16_t>(kPortsFrom | mixed >> 18);
}

/// Bytes [offset, offset + bytes) of the pieces. False: they are not there.
bool gather(const Piece* pieces, uint32_t count, size_t offset, uint8_t* to, size_t bytes) {
  for (uint32_t i = 0; i < count && bytes > 0; i++) {
    if (offset >= pieces[i].length) {
      offset -= pieces[i].length;
      continue;
    }
    const size_t chunk = std::min(pieces[i].length - offset, bytes);
    if (!fault_copy(to, static_cast<const char*>(pieces[i].base) + offset, chunk)) return false;
    to += chunk;
    bytes -= chunk;
    offset = 0;
  }
  return bytes == 0;
}

/// The acknowledgement that a request carries along, as a packet of its own.
Segment acknowledgement_in(const Segment& request) {
  Segment ack = request;
  ack.operation = Operation::kAck;
  ack.flags = kFirst | kLast | kAddressed;
  ack.syndrome = kAckOk;
  ack.psn = request.ack_psn;
  ack.packets = 1;
  ack.length = 0;
  return ack;
}

}  // namespace

struct Recorder::Mapping {
  std::byte* memory = nullptr;
  size_t bytes = 0;  ///< of the process's ring with its header
  uint32_t ring_bytes = 0, snap_bytes = 0;
  CaptureHeader* header = nullptr;

  ~Mapping() {
    if (memory) munmap(memory, bytes);
    if (header) munmap(header, kCapturePage);
  }
  RingHeader& ring() const { return *reinterpret_cast<RingHeader*>(memory); }
  std::byte* at(uint64_t position) const { return memory + kCapturePage + position % ring_bytes; }
};

void Recorder::name_device(uint32_t number, const std::string& name) {
  std::lock_guard<SpinLock> hold(lock_);
  names_[std::min(number, kNamesMax - 1)] = name;
  if (!mapping_) return;
  char(&to)[32] = mapping_->ring().names[std::min(number, kNamesMax - 1)];
  std::strncpy(to, name.c_str(), sizeof to - 1);
}

Outcome Recorder::open(int file) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const Error none{EPROTO, "what the agent sent is no capture of this version"};
  auto made = std::make_shared<Mapping>();
  struct stat status {};
  const int seals = fcntl(file, F_GET_SEALS);
  const bool sealed = seals >= 0 && (seals & kSeals) == kSeals && fstat(file, &status) == 0 &&
                      status.st_size >= static_cast<off_t>(kCapturePage);
  void* head = sealed ? mmap(nullptr, kCapturePage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (head != MAP_FAILED) made->header = static_cast<CaptureHeader*>(head);
  CaptureHeader* header = made->header;
  const uint32_t ring_bytes = header ? header->ring_bytes : 0;
  const bool right = header && header->magic == CaptureHeader::kMagic && header->number != 0 &&
                     ring_bytes >= kRingBytesMin && ring_bytes <= kRingBytesMax &&
                     ring_bytes % kCapturePage == 0 &&
                     capture_bytes(ring_bytes) <= static_cast<size_t>(status.st_size) && slot_ < kSlotsMax;
  if (right) {
    made->bytes = kCapturePage + ring_bytes;
    void* ring = mmap(nullptr, made->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                      static_cast<off_t>(kCapturePage + made->bytes * slot_));
    if (ring != MAP_FAILED) made->memory = static_cast<std::byte*>(ring);
  }
  ::close(file);
  if (!made->memory) return none;
  made->ring_bytes = ring_bytes;
  made->snap_bytes = header->snap_bytes;
  for (uint32_t i = 0; i < kNamesMax; i++)
    std::strncpy(made->ring().names[i], names_[i].c_str(), sizeof made->ring().names[i] - 1);
  header->writers[slot_ / 64].fetch_or(1ull << (slot_ % 64), std::memory_order_release);
  std::lock_guard<SpinLock> hold(lock_);
  mapping_ = std::move(made);
  qpn_.store(header->qpn, std::memory_order_relaxed);
  number_.store(header->number, std::memory_order_release);
  return Done{};
}

void Recorder::close() {
  std::shared_ptr<Mapping> gone;
  std::lock_guard<SpinLock> hold(lock_);
  number_.store(0, std::memory_order_release);
  gone.swap(mapping_);
}

bool Recorder::wants(uint32_t source_qpn, uint32_t dest_qpn) const {
  if (number() == 0) return false;
  const uint32_t qpn = qpn_.load(std::memory_order_relaxed);
  return qpn == kAnyQpn || qpn == source_qpn || qpn == dest_qpn;
}

void Recorder::record(const Travel& travel, std::span<const uint8_t> datagram, Direction direction,
                      uint32_t source_qpn, uint32_t device, uint64_t time_ns) {
  PacketFacts facts = facts_of(datagram, direction);
  if (facts.source_qpn == kAnyQpn) facts.source_qpn = source_qpn;
  if (!wants(facts.source_qpn, facts.dest_qpn)) return;
  Frame frame;
  const size_t head = head_bytes(travel.envelope);
  if (head + datagram.size() > frame.size()) return;
  std::memcpy(frame.data() + head, datagram.data(), datagram.size());
  if (put_head(travel, datagram, frame) != head) return;
  const auto whole = std::span(frame).first(head + datagram.size());
  if (!travel.envelope.is_ipv4()) put_udp_checksum(whole.subspan(kEthernetBytes));
  write(whole, whole.size(), direction, device, time_ns);
}

void Recorder::record(const Segment& segment, const Piece* pieces, uint32_t count, uint32_t device) {
  if (segment.has(kFrame)) {
    Frame frame;
    const size_t bytes = std::min<size_t>(segment.length, frame.size());
    if (number() != 0 && gather(pieces, count, 0, frame.data(), bytes))
      write(std::span(frame).first(bytes), segment.length, Direction::kOut, device, now_ns());
    return;
  }
  const bool addressed = segment.transport == Transport::kUd || segment.has(kAddressed);
  if (!addressed || segment.gid_type == GidType::kInfiniband || !wants(segment.src_qpn, segment.dest_qpn))
    return;
  if (segment.source_gid.is_ipv4_mapped() != segment.dest_gid.is_ipv4_mapped()) return;
  if (segment.has(kAcknowledges)) record(acknowledgement_in(segment), nullptr, 0, device);
  Segment plain = segment;
  plain.flags &= static_cast<uint16_t>(~kAcknowledges);
  PacketsOf packets(plain);
  if (packets.obstacle()) return;
  const Travel travel{{segment.source_gid, segment.dest_gid, source_port(segment), roce::kRocePort, 0, true},
                      segment.traffic_class,
                      segment.hop_limit,
                      segment.flow_label};
  const roce::PacketWriter writer(travel.envelope);
  const size_t head = head_bytes(travel.envelope);
  Frame frame;
  while (packets.next()) {
    const size_t header_bytes = roce::bytes_of(packets.headers());
    const size_t payload = packets.bytes();
    if (head + header_bytes + payload + roce::kTailBytesMax > frame.size()) return;
    if (payload > 0 && !gather(pieces, count, packets.offset(), frame.data() + head + header_bytes, payload))
      return;
    const auto room = std::span(frame).subspan(head);
    const size_t bytes = writer.seal(room, packets.headers(), payload);
    if (bytes == 0 || put_head(travel, room.first(bytes), frame) != head) return;
    const auto whole = std::span(frame).first(head + bytes);
    if (!travel.envelope.is_ipv4()) put_udp_checksum(whole.subspan(kEthernetBytes));
    write(whole, whole.size(), Direction::kOut, device, now_ns());
  }
}

void Recorder::record_frame(std::span<const uint8_t> frame, Direction direction, uint32_t device,
                            uint64_t time_ns) {
  write(frame, frame.size(), direction, device, time_ns);
}

// One thread at a time; what finds no room is counted.
void Recorder::write(std::span<const uint8_t> frame, size_t frame_bytes, Direction direction, uint32_t device,
                     uint64_t time_ns) {
  std::lock_guard<SpinLock> hold(lock_);
  if (!mapping_) return;
  const Mapping& mapping = *mapping_;
  RingHeader& ring = mapping.ring();
  device = std::min(device, kNamesMax - 1);
  CaptureRecord record{};
  record.captured = static_cast<uint32_t>(std::min<size_t>(frame.size(), mapping.snap_bytes));
  record.original = static_cast<uint32_t>(frame_bytes);
  record.bytes = (static_cast<uint32_t>(sizeof record) + record.captured + 7) / 8 * 8;
  record.device = static_cast<uint8_t>(device);
  record.inbound = direction == Direction::kIn;
  record.time_ns = time_ns;
  uint64_t head = ring.head.load(std::memory_order_relaxed);
  const auto left = static_cast<uint32_t>(mapping.ring_bytes - head % mapping.ring_bytes);
  const uint32_t skipped = left < record.bytes ? left : 0;
  const uint64_t used = head - ring.tail.load(std::memory_order_acquire);
  if (head % 8 != 0 || used + skipped + record.bytes > mapping.ring_bytes) {
    ring.lost[device].fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (skipped > 0) {
    const CaptureRecord rest{skipped, 0, 0, 0, 0, 0, 0};
    std::memcpy(mapping.at(head), &rest, std::min<size_t>(skipped, sizeof rest));
    head += skipped;
  }
  std::memcpy(mapping.at(head), &record, sizeof record);
  std::memcpy(mapping.at(head) + sizeof record, frame.data(), record.captured);
  ring.head.store(head + record.bytes, std::memory_order_release);
}

}  // namespace verbatim::wire::tap
