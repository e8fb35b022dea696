// SPDX-License-Identifier: MIT
#pragma once

// What requests and answers would be as packets on a port's link: bytes from the link's header to the
// invariant CRC. Processes of one host move bytes without packets; counters of the port tell of them all the
// same.

#include <cstdint>

#include "engine/message.h"
#include "engine/packet_count.h"
#include "engine/port.h"
#include "engine/published.h"
#include "wire/link/segment.h"

namespace verbatim::engine {

/// The headers that every packet of this path has, and its CRC.
uint32_t frame_bytes(const Port& port, const Gid& destination, bool has_grh);

/// Headers that a request or answer has beside those, in its first packet.
uint32_t header_bytes(wire::Operation operation, wire::Transport transport);

/// A segment of a wire, which may be several packets.
PacketCount packets_of_segment(const wire::Segment& segment, uint32_t frame);

/// What a message of a connection and the answer to it are.
Exchange exchange_of(Opcode opcode, uint32_t bytes, uint32_t mtu, uint32_t frame, bool answered);

/// One writer at a time.
inline void add_to(std::atomic<uint64_t>& count, uint64_t more) {
  count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

inline void add_to(std::atomic<uint64_t>& bytes, std::atomic<uint64_t>& packets, const PacketCount& more) {
  add_to(bytes, more.bytes);
  add_to(packets, more.packets);
}

/// Any number of writers.
inline void count_port(Published& published, uint32_t device, PortCount what, uint64_t more = 1) {
  if (device < kPortsShown)
    published.ports[device].counts[static_cast<size_t>(what)].fetch_add(more, std::memory_order_relaxed);
}

inline uint64_t count_of_port(const Published& published, uint32_t device, PortCount what) {
  return device < kPortsShown ? published.ports[device].counts[static_cast<size_t>(what)].load() : 0;
}

/// A queue pair number gets another queue pair: what was counted under another device goes to that one's
/// port.
void settle_traffic(Published& published, PublishedTraffic& traffic, uint32_t device);

}  // namespace verbatim::engine
