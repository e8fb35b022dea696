// SPDX-License-Identifier: MIT
#include "testing/simulation/host.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "wire/link/flat_payload.h"
#include "wire/link/roce/conversion.h"

namespace verbatim::simulation {

namespace {

constexpr uint64_t kRoomNs = 20'000;  ///< how long a channel stays busy

}  // namespace

wire::SendResult SimulatedChannel::send(const wire::Segment& segment, const wire::Piece* pieces,
                                        uint32_t count, bool, wire::Segment*) {
  if (fabric_.network_.random().per_million(fabric_.busy)) {
    fabric_.room_at_ns_ = fabric_.clock_.now_ns() + kRoomNs;
    return wire::SendResult::kBusy;
  }
  wire::PacketsOf packets(segment);
  if (packets.obstacle() || segment.source_gid != address_of(fabric_.host_) ||
      segment.dest_gid != address_of(to_))
    return wire::SendResult::kUnreachable;
  std::vector<uint8_t> bytes;
  for (uint32_t i = 0; i < count; i++) {
    const auto* piece = static_cast<const uint8_t*>(pieces[i].base);
    bytes.insert(bytes.end(), piece, piece + pieces[i].length);
  }
  if (bytes.size() != segment.length) throw std::logic_error("a segment's pieces are not as long as it says");
  const roce::PacketWriter writer(envelope_of(fabric_.host_, to_));
  while (packets.next()) {
    std::vector<uint8_t> out(roce::kPacketBytesMax);
    std::vector<uint8_t> payload(packets.filler_bytes());
    payload.insert(payload.end(), bytes.begin() + packets.offset(),
                   bytes.begin() + packets.offset() + packets.bytes());
    const size_t size = writer.write(out, packets.headers(), payload);
    if (size == 0) throw std::logic_error("a packet does not fit");
    out.resize(size);
    fabric_.network_.send(fabric_.host_, to_, std::move(out));
  }
  return wire::SendResult::kAccepted;
}

SimulatedFabric::SimulatedFabric(Network& network, Trace& trace, const Clock& clock, uint32_t host)
    : network_(network), trace_(trace), clock_(clock), host_(host) {
  void* memory = mmap(nullptr, sizeof(engine::Published), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for published tables");
  published_ = static_cast<std::byte*>(memory);
  for (uint32_t to = 0; to < Network::kHostsMax; to++)
    channels_.push_back(std::make_unique<SimulatedChannel>(*this, to));
  network_.attach(host, this);
}

SimulatedFabric::~SimulatedFabric() {
  network_.attach(host_, nullptr);
  munmap(published_, sizeof(engine::Published));
}

void SimulatedFabric::arrive(uint32_t from, std::vector<uint8_t>& datagram, bool congested) {
  inbox_.push_back({from, congested, std::move(datagram)});
}

wire::Channel* SimulatedFabric::channel(const Gid& dest, uint32_t) {
  for (uint32_t to = 0; to < Network::kHostsMax; to++)
    if (to != host_ && address_of(to) == dest) return channels_[to].get();
  return nullptr;
}

uint32_t SimulatedFabric::poll(wire::Receiver& receiver, uint32_t budget) {
  if (inbox_.empty()) return 0;
  receiver.enter();
  uint32_t done = 0;
  for (; done < budget && !inbox_.empty(); done++) {
    Arrival arrival = std::move(inbox_.front());
    inbox_.pop_front();
    deliver(arrival, receiver);
  }
  receiver.leave();
  return done;
}

void SimulatedFabric::deliver(Arrival& arrival, wire::Receiver& receiver) {
  const auto packet = roce::Packet::parse(arrival.datagram);
  const bool intact =
      packet.ok() && roce::check_icrc(envelope_of(arrival.from, host_), arrival.datagram, true).right;
  trace_.packet(intact ? Fate::kArrived : Fate::kWrongIcrc, arrival.from, host_,
                packet.ok() ? packet->headers : roce::Headers{}, packet.ok() ? packet->payload.size() : 0);
  wire::Segment segment;
  if (!intact || !wire::segment_of(*packet, segment)) return;
  segment.source_gid = address_of(arrival.from);
  segment.dest_gid = address_of(host_);
  segment.gid_type = GidType::kRoceV2;
  segment.flow_label = 0;
  segment.traffic_class = 0;
  segment.hop_limit = 64;
  segment.source_lid = segment.dest_lid = 0;
  if (arrival.congested) segment.flags |= wire::kCongested;
  auto* bytes = const_cast<uint8_t*>(packet->payload.data());
  if (network_.sabotage == Sabotage::kFlipAfterCheck && segment.length > 0 && network_.random().one_in(20))
    bytes[0] ^= 1;
  if (network_.sabotage == Sabotage::kRepeatAtomic && segment.operation == wire::Operation::kFetchAdd)
    segment.swap_or_add *= 2;
  wire::FlatPayload payload(reinterpret_cast<const std::byte*>(bytes), segment.length);
  receiver.on_segment(*channels_[arrival.from], segment, payload, nullptr);
}

void SimulatedFabric::make_room(wire::Receiver& receiver) {
  room_at_ns_ = kNever;
  receiver.on_room(*channels_[0]);
}

void SimulatedHost::start(uint32_t slot) {
  slot_ = slot;
  fabric_ = std::make_unique<SimulatedFabric>(network_, trace_, clock_, number_);
  engine_ = std::make_unique<engine::Engine>(*fabric_, *this, clock_);
  next_ns_ = kNever;
}

void SimulatedHost::crash() {
  engine_.reset();
  fabric_.reset();
  next_ns_ = kNever;
}

void SimulatedHost::run() {
  if (fabric_->room_at_ns() <= clock_.now_ns()) fabric_->make_room(*engine_);
  do {
    woken_ = false;
    next_ns_ = engine_->step(clock_.now_ns());
  } while (next_ns_ <= clock_.now_ns() || woken_);
}

uint64_t SimulatedHost::next_ns() const { return std::min(next_ns_, fabric_->room_at_ns()); }

engine::GidEntry SimulatedHost::gid(uint32_t index) const {
  engine::GidEntry entry;
  if (index == 0) entry.gid = address_of(number_);
  return entry;
}

Expected<uint32_t> SimulatedHost::qpn_slot(uint32_t block) {
  if (block == 0) return slot_;
  return Error{ENOMEM, "one block is all there is in a simulation"};
}

}  // namespace verbatim::simulation
