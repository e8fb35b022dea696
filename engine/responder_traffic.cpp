// SPDX-License-Identifier: MIT
// What the responder counts as traffic of the port: packets from other hosts, and what needs no connection.
// For connections within the host the requester counts.
#include "engine/engine.h"
#include "engine/queue_pair.h"
#include "engine/traffic.h"

namespace verbatim::engine {

void Responder::count_arrived(const wire::Segment& segment) {
  PublishedTraffic& traffic = qp_.traffic();
  const bool datagram = segment.transport == wire::Transport::kUd;
  const uint32_t frame =
      datagram ? frame_bytes(*qp_.spec().port, segment.dest_gid, segment.has_grh) : qp_.frame_bytes();
  add_to(traffic.arrived_bytes, traffic.arrived_packets, packets_of_segment(segment, frame));
  if (datagram && segment.has_grh && segment.dest_gid.is_multicast())
    qp_.count(PortCount::kMulticastReceived);
  if (datagram || !segment.has(wire::kFirst)) return;
  switch (segment.operation) {
    case wire::Operation::kWrite:
    case wire::Operation::kAtomicWrite:
      return add_to(traffic.written, 1);
    case wire::Operation::kReadRequest:
      return add_to(traffic.read, 1);
    case wire::Operation::kCompareSwap:
    case wire::Operation::kFetchAdd:
      return add_to(traffic.changed, 1);
    default:
      return;
  }
}

void Responder::count_arrived_frame(uint32_t bytes) {
  add_to(qp_.traffic().arrived_bytes, qp_.traffic().arrived_packets, {bytes, 1});
}

void Responder::count_answered(const wire::Segment& segment) {
  PublishedTraffic& traffic = qp_.traffic();
  add_to(traffic.answered_bytes, traffic.answered_packets, packets_of_segment(segment, qp_.frame_bytes()));
}

void Responder::count_failure(Status status) {
  qp_.count(PortCount::kResponderErrors);
  if (status == Status::kFlushed) qp_.count(PortCount::kResponderFlushed);
  if (status == Status::kLocalLength) qp_.count(PortCount::kTooLong);
}

}  // namespace verbatim::engine
