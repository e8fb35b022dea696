// SPDX-License-Identifier: MIT
#include "engine/traffic.h"

namespace verbatim::engine {

namespace {

using wire::Operation;

constexpr uint32_t kEthernetBytes = 14, kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8;
constexpr uint32_t kLocalRouteBytes = 8, kGlobalRouteBytes = 40;
constexpr uint32_t kBaseBytes = 12, kCrcBytes = 4;
constexpr uint32_t kRethBytes = 16, kAtomicBytes = 28, kAethBytes = 4, kOriginalBytes = 8, kDethBytes = 8;
constexpr uint32_t kXrcBytes = 4, kImmediateBytes = 4, kFlushBytes = 4;

uint64_t padded(uint64_t bytes) { return (bytes + 3) & ~uint64_t{3}; }

uint32_t request_header_bytes(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSendImmediate:
    case Opcode::kSendInvalidate:
      return kImmediateBytes;
    case Opcode::kWrite:
    case Opcode::kRead:
    case Opcode::kAtomicWrite:
      return kRethBytes;
    case Opcode::kWriteImmediate:
      return kRethBytes + kImmediateBytes;
    case Opcode::kCompareSwap:
    case Opcode::kFetchAdd:
      return kAtomicBytes;
    case Opcode::kFlush:
      return kRethBytes + kFlushBytes;
    default:
      return 0;
  }
}

}  // namespace

uint32_t frame_bytes(const Port& port, const Gid& destination, bool has_grh) {
  const uint32_t inner = kBaseBytes + kCrcBytes;
  if (port.is_infiniband()) return inner + kLocalRouteBytes + (has_grh ? kGlobalRouteBytes : 0);
  return inner + kEthernetBytes + kUdpBytes + (destination.is_ipv4_mapped() ? kIpv4Bytes : kIpv6Bytes);
}

uint32_t header_bytes(Operation operation, wire::Transport transport) {
  uint32_t bytes = 0;
  if (transport == wire::Transport::kUd) bytes = kDethBytes;
  if (transport == wire::Transport::kXrc) bytes = kXrcBytes;
  switch (operation) {
    case Operation::kWrite:
    case Operation::kReadRequest:
    case Operation::kAtomicWrite:
      return bytes + kRethBytes;
    case Operation::kFlush:
      return bytes + kRethBytes + kFlushBytes;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return bytes + kAtomicBytes;
    case Operation::kAtomicResponse:
      return kAethBytes + kOriginalBytes;
    case Operation::kAck:
    case Operation::kReadResponse:
      return kAethBytes;
    case Operation::kSend:
    case Operation::kDisconnect:
    case Operation::kCongestion:
      break;
  }
  return bytes;
}

PacketCount packets_of_segment(const wire::Segment& segment, uint32_t frame) {
  const uint64_t packets = segment.operation == Operation::kReadRequest ? 1 : segment.packets;
  uint64_t headers = frame * packets;
  if (segment.has(wire::kFirst)) headers += header_bytes(segment.operation, segment.transport);
  if (segment.has(wire::kImmediate) || segment.has(wire::kInvalidate)) headers += kImmediateBytes;
  return {headers + padded(segment.length), packets};
}

Exchange exchange_of(Opcode opcode, uint32_t bytes, uint32_t mtu, uint32_t frame, bool answered) {
  const uint64_t packets = bytes <= mtu ? 1 : packets_of(bytes, mtu);
  const PacketCount full{frame * packets + padded(bytes), packets}, bare{frame, 1};
  Exchange exchange;
  exchange.request = sends_data(opcode) ? full : bare;
  exchange.request.bytes += request_header_bytes(opcode);
  if (!answered) return exchange;
  exchange.answer = opcode == Opcode::kRead ? full : bare;
  exchange.answer.bytes += kAethBytes + (is_atomic(opcode) ? kOriginalBytes : 0);
  return exchange;
}

void settle_traffic(Published& published, PublishedTraffic& traffic, uint32_t device) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const auto before = static_cast<uint32_t>(traffic.device.load(relaxed));
  if (before == device) return;
  const auto move = [&](std::atomic<uint64_t>& from, PortCount to) {
    count_port(published, before, to, from.exchange(0, relaxed));
  };
  move(traffic.sent_bytes, PortCount::kSentBytes);
  move(traffic.answered_bytes, PortCount::kSentBytes);
  move(traffic.sent_packets, PortCount::kSentPackets);
  move(traffic.answered_packets, PortCount::kSentPackets);
  move(traffic.returned_bytes, PortCount::kReceivedBytes);
  move(traffic.arrived_bytes, PortCount::kReceivedBytes);
  move(traffic.returned_packets, PortCount::kReceivedPackets);
  move(traffic.arrived_packets, PortCount::kReceivedPackets);
  for (std::atomic<uint64_t>* each : {&traffic.writes, &traffic.written}) move(*each, PortCount::kWrites);
  for (std::atomic<uint64_t>* each : {&traffic.reads, &traffic.read}) move(*each, PortCount::kReads);
  for (std::atomic<uint64_t>* each : {&traffic.atomics, &traffic.changed}) move(*each, PortCount::kAtomics);
  traffic.device.store(device, relaxed);
}

}  // namespace verbatim::engine
