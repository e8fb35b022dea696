// SPDX-License-Identifier: MIT
#include "wire/link/udp/udp_fabric.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/ticks.h"
#include "wire/format/ip.h"
#include "wire/link/flat_payload.h"
#include "wire/link/roce/conversion.h"
#include "wire/link/udp/outbox.h"
#include "wire/link/udp/port_socket.h"

namespace verbatim::wire::udp {

namespace {

constexpr uint64_t kOpenRetryNs = 1'000'000'000;
constexpr uint64_t kWarmTicks = 1'000'000;  ///< how long after a packet the next is looked for all the time
constexpr uint64_t kSeldomTicks = 20'000;   ///< between looks after that
constexpr uint64_t kRarelyTicks = 400'000;  ///< between looks when no host has been met
constexpr uint32_t kSlotShift = 14;
constexpr uint32_t kMulticastQpn = 0xffffff;
constexpr auto kAcknowledgeOpcode =
    static_cast<uint8_t>(roce::opcode(roce::Transport::kRc, roce::Operation::kAcknowledge));
constexpr uint8_t kEcnMask = 3, kCongestionExperienced = 3;

}  // namespace

UdpFabric::UdpFabric(Neighborhood& neighborhood, Owners& owners, tap::Tap& tap, const Clock& clock)
    : neighborhood_(neighborhood), owners_(owners), tap_(tap), clock_(clock), strangers_(*this, Gid{}) {}

UdpFabric::~UdpFabric() {
  tap_.forget_held();
  close_all();
}

void UdpFabric::close_all() {
  const int socket = socket_.exchange(-1);
  if (socket >= 0) close(socket);
  const auto close_port = [](Port& port) {
    if (const int sending = port.socket.exchange(-1); sending >= 0) close(sending);
  };
  for (Port& port : ports_) close_port(port);
  close_port(fragmenting_);
}

void UdpFabric::after_fork_child() { close_all(); }

bool UdpFabric::open() {
  if (socket_.load(std::memory_order_acquire) >= 0) return true;
  std::lock_guard<std::mutex> hold(lock_);
  if (socket_.load(std::memory_order_relaxed) >= 0) return true;
  const uint64_t now = clock_.now_ns();
  if (now < retry_at_ns_) return false;
  retry_at_ns_ = now + kOpenRetryNs;
  Expected<int> opened = neighborhood_.open_wire();
  if (!opened) {
    obstacle_ = opened.error().reason;
    return false;
  }
  obstacle_.clear();
  if (!inbox_) inbox_ = std::make_unique<Inbox>();
  socket_.store(*opened, std::memory_order_release);
  if (call_) call_();
  return true;
}

void UdpFabric::join(const Gid& group) {
  if (!open()) return;
  std::lock_guard<std::mutex> hold(lock_);
  if (groups_[group]++ == 0) set_membership(group, true);
}

void UdpFabric::leave(const Gid& group) {
  std::lock_guard<std::mutex> hold(lock_);
  const auto found = groups_.find(group);
  if (found == groups_.end() || --found->second > 0) return;
  groups_.erase(found);
  set_membership(group, false);
}

// With the lock held. On every interface, as a group does not say on which one it is.
void UdpFabric::set_membership(const Gid& group, bool member) {
  constexpr uint32_t kInterfacesMax = 64;
  uint32_t indices[kInterfacesMax];
  const uint32_t count = neighborhood_.interfaces(indices, kInterfacesMax);
  for (uint32_t i = 0; i < count; i++) udp::set_membership(file(), group, indices[i], member);
}

Channel* UdpFabric::channel(const Gid& host) {
  if (!open()) return nullptr;
  std::lock_guard<SpinLock> hold(channels_lock_);
  std::unique_ptr<UdpChannel>& found = channels_[host];
  if (!found) found = std::make_unique<UdpChannel>(*this, host);
  return found.get();
}

Channel& UdpFabric::sender(const Gid& host) {
  std::lock_guard<SpinLock> hold(channels_lock_);
  const auto found = channels_.find(host);
  return found == channels_.end() ? strangers_ : *found->second;
}

std::string UdpFabric::obstacle(const Gid& host) {
  {
    std::lock_guard<SpinLock> hold(channels_lock_);
    const auto found = channels_.find(host);
    if (found != channels_.end() && found->second->last_error() != 0)
      return std::string("the network refuses packets to it: ") + std::strerror(found->second->last_error());
  }
  std::lock_guard<std::mutex> hold(lock_);
  return obstacle_;
}

// With the lock held.
bool UdpFabric::open_port(Port& port) {
  const Expected<int> opened = &port == &fragmenting_ ? open_fragmenting_socket() : open_sending_socket();
  if (!opened) return false;
  sockaddr_in6 bound{};
  socklen_t length = sizeof bound;
  getsockname(*opened, reinterpret_cast<sockaddr*>(&bound), &length);
  port.number = ntohs(bound.sin6_port);
  port.socket.store(*opened, std::memory_order_release);
  return true;
}

const UdpFabric::Port* UdpFabric::sending_port(uint32_t dest_qpn, bool fragments) {
  Port& port = fragments ? fragmenting_ : ports_[(dest_qpn >> kSlotShift) % kPorts];
  if (port.socket.load(std::memory_order_acquire) >= 0) return &port;
  std::lock_guard<std::mutex> hold(lock_);
  if (port.socket.load(std::memory_order_relaxed) >= 0) return &port;
  return socket_.load(std::memory_order_relaxed) >= 0 && open_port(port) ? &port : nullptr;
}

bool UdpFabric::way_of(const Segment& segment, bool fragments, Way& way) {
  const Port* port = sending_port(segment.dest_qpn, fragments);
  if (!port) return false;
  way.socket = port->socket.load(std::memory_order_relaxed);
  way.port = port->number;
  way.source = segment.source_gid;
  way.destination = segment.dest_gid;
  way.flow_label = segment.flow_label;
  way.traffic_class = segment.traffic_class;
  way.hop_limit = segment.hop_limit;
  way.tap = &tap_;
  if (!way.source.is_ipv4_mapped()) way.scope = neighborhood_.interface_of(way.source);
  return way.socket >= 0;
}

void UdpFabric::note_traffic() {
  warm_until_.store(processor_ticks() + kWarmTicks, std::memory_order_relaxed);
  if (!met_.load(std::memory_order_relaxed)) met_.store(true, std::memory_order_relaxed);
}

void UdpFabric::note_sent(bool busy) {
  if (busy) busy_.store(true, std::memory_order_relaxed);
  note_traffic();
}

bool UdpFabric::is_warm() const { return processor_ticks() < warm_until_.load(std::memory_order_relaxed); }

bool UdpFabric::due() const {
  if (file() < 0) return false;
  return busy() || is_warm() || held_until_ns() != kNever ||
         processor_ticks() >= next_look_.load(std::memory_order_relaxed);
}

uint32_t UdpFabric::poll(Receiver& receiver, uint32_t budget) {
  const int socket = file();
  if (socket < 0) return 0;
  const uint64_t pause = met_.load(std::memory_order_relaxed) ? kSeldomTicks : kRarelyTicks;
  next_look_.store(processor_ticks() + pause, std::memory_order_relaxed);
  if (busy_.load(std::memory_order_relaxed) && busy_.exchange(false)) receiver.on_room(strangers_);
  tap_.release();
  uint32_t done = held_until_ns_.load(std::memory_order_relaxed) != kNever ? deliver_held(receiver) : 0;
  for (bool more = true; more && done < budget;) {
    const uint32_t count = inbox_->receive(socket, more);
    if (count == 0) break;
    receiver.enter();
    Arrival arrival;
    for (uint32_t i = 0; i < count; i++)
      if (inbox_->read(i, arrival)) done += deliver(arrival, receiver);
    receiver.leave();
    note_traffic();
  }
  return done;
}

// An acknowledgement that came along with the answer, as the last of the run, goes first: programs expect to
// hear that their request has ended before they hear of the answer.
uint32_t UdpFabric::deliver(const Arrival& arrival, Receiver& receiver) {
  if (arrival.bytes.empty()) return 0;
  const Flow flow(arrival);
  const size_t each = arrival.packet_bytes, last = (arrival.bytes.size() - 1) / each;
  uint32_t count = 0;
  const bool injects = tap_.injects_in();
  // What this host sends to itself is captured where it is sent.
  const bool captured = tap_.captures() && !neighborhood_.is_local(arrival.source);
  const auto deliver_one = [&](size_t place) {
    const auto number = static_cast<uint16_t>(place);
    const auto datagram =
        arrival.bytes.subspan(place * each, std::min(each, arrival.bytes.size() - place * each));
    if (captured) [[unlikely]]
      tap_.record_arrived({flow.envelope(number), arrival.traffic_class, arrival.hop_limit, 0}, datagram);
    if (injects) [[unlikely]]
      count += inject(flow, number, datagram, receiver);
    else
      count += deliver_packet(flow, number, datagram, receiver);
  };
  const bool answer = last > 0 && arrival.bytes[last * each] == kAcknowledgeOpcode;
  if (answer) deliver_one(last);
  for (size_t number = 0; number < last + (answer ? 0 : 1); number++) deliver_one(number);
  return count;
}

// Rules that look at what comes in.
uint32_t UdpFabric::inject(const Flow& flow, uint16_t number, std::span<const uint8_t> datagram,
                           Receiver& receiver) {
  const tap::Fate fate = tap_.fate(tap::facts_of(datagram, tap::Direction::kIn));
  if (fate.drop) return 1;
  std::vector<uint8_t> damaged;
  if (fate.corrupt) {
    damaged.assign(datagram.begin(), datagram.end());
    tap::damage(damaged, flow.envelope(number), fate.dice);
    datagram = damaged;
  }
  for (uint32_t copy = 0; copy < fate.copies; copy++) {
    if (fate.hold_ns == 0)
      (void)deliver_packet(flow, number, datagram, receiver);
    else
      held_.add(clock_.now_ns() + fate.hold_ns, fate.overtakers,
                {flow.arrival, number, {datagram.begin(), datagram.end()}});
  }
  if (fate.hold_ns == 0 && !held_.empty()) held_.note_passed(fate.copies);
  held_until_ns_.store(held_.next_ns(), std::memory_order_relaxed);
  return 1;
}

uint32_t UdpFabric::deliver_held(Receiver& receiver) {
  const std::vector<HeldArrival> due = held_.take_due(clock_.now_ns());
  held_until_ns_.store(held_.next_ns(), std::memory_order_relaxed);
  if (due.empty()) return 0;
  receiver.enter();
  for (const HeldArrival& each : due)
    (void)deliver_packet(Flow(each.arrival), each.number, each.datagram, receiver);
  receiver.leave();
  return static_cast<uint32_t>(due.size());
}

// `number`: of the packet in its run, which is its IP identification when a host like this one has sent it.
bool UdpFabric::deliver_packet(const Flow& flow, uint16_t number, std::span<const uint8_t> datagram,
                               Receiver& receiver) {
  const Arrival& arrival = flow.arrival;
  const auto packet = roce::Packet::parse(datagram, flow.icrc, flow.envelope(number), false);
  Segment segment;
  if (!packet) {
    const bool damaged = packet.refusal() == roce::Refusal::kWrongIcrc;
    if (damaged) receiver.on_damaged(roce::Packet::parse(datagram)->headers.bth.destination);
    return false;
  }
  if (!segment_of(*packet, segment)) return false;
  segment.source_gid = arrival.source;
  segment.dest_gid = arrival.destination;
  segment.gid_type = GidType::kRoceV2;
  segment.flow_label = 0;
  segment.traffic_class = arrival.traffic_class;
  segment.hop_limit = arrival.hop_limit;
  segment.source_lid = segment.dest_lid = 0;
  if ((arrival.traffic_class & kEcnMask) == kCongestionExperienced) segment.flags |= kCongested;
  if (segment.dest_qpn != kMulticastQpn && !owners_.is_own(segment.dest_qpn)) {
    pass_on(segment, packet->payload);
    return true;
  }
  if (!last_channel_ || last_host_ != arrival.source || last_channel_ == &strangers_) {
    last_channel_ = &sender(arrival.source);
    last_host_ = arrival.source;
  }
  FlatPayload payload(reinterpret_cast<const std::byte*>(packet->payload.data()), packet->payload.size());
  receiver.on_segment(*last_channel_, segment, payload, nullptr);
  return true;
}

void UdpFabric::pass_on(Segment& segment, std::span<const uint8_t> payload) {
  Channel* owner =
      segment.operation == Operation::kCongestion ? nullptr : owners_.other_owner(segment.dest_qpn);
  if (!owner) return;
  segment.flags |= kPassedOn;
  const Piece piece{const_cast<uint8_t*>(payload.data()), payload.size()};
  (void)owner->send(segment, &piece, 1, false, nullptr);  // lost, if there is no room
}

}  // namespace verbatim::wire::udp
