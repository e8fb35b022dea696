// SPDX-License-Identifier: MIT
// What the requester counts as traffic of the port. Over a wire that is each packet. Between processes of the
// host it is what a message and its answer would be as packets, once the message has ended, and the requester
// counts for both ends: a responder need not even run.
#include "engine/engine.h"
#include "engine/queue_pair.h"
#include "engine/traffic.h"

namespace verbatim::engine {

// Datagrams are counted where they are sent, local operations not at all.
void Requester::measure(Opcode opcode, uint32_t bytes) {
  measured_ = {opcode, bytes, {}, {}};
  const QpType type = qp_.type();
  if (is_local(opcode) || type == QpType::kUd || type == QpType::kRaw) return;
  uint32_t frame = qp_.frame_bytes();
  if (dynamic_) frame = frame_bytes(*qp_.spec().port, peer_.place.gid, initiator_->route.has_grh);
  measured_.exchange = exchange_of(opcode, bytes, qp_.attributes().path_mtu, frame, reliable_);
  measured_.both = sum_of(measured_.exchange);
  if (is_write(opcode)) measured_.operations = &PublishedTraffic::writes;
  if (opcode == Opcode::kRead) measured_.operations = &PublishedTraffic::reads;
  if (is_atomic(opcode)) measured_.operations = &PublishedTraffic::atomics;
  const PublishedQp* peer = channel_ ? peer_entry() : nullptr;
  if (!peer || peer->qpn.load(std::memory_order_relaxed) != peer_.place.qpn) return;
  measured_.peer_device = peer->device.load(std::memory_order_relaxed);
  measured_.same_port = measured_.peer_device == qp_.spec().port->device;
}

void Requester::count_on_other_port() {
  PublishedTraffic& traffic = qp_.traffic();
  const Exchange& exchange = measured_.exchange;
  add_to(traffic.sent_bytes, traffic.sent_packets, exchange.request);
  add_to(traffic.returned_bytes, traffic.returned_packets, exchange.answer);
  const auto count = [this](PortCount what, uint64_t more) {
    count_port(engine_.published(), measured_.peer_device, what, more);
  };
  count(PortCount::kReceivedBytes, exchange.request.bytes);
  count(PortCount::kReceivedPackets, exchange.request.packets);
  count(PortCount::kSentBytes, exchange.answer.bytes);
  count(PortCount::kSentPackets, exchange.answer.packets);
  if (measured_.operations == &PublishedTraffic::writes) count(PortCount::kWrites, 1);
  if (measured_.operations == &PublishedTraffic::reads) count(PortCount::kReads, 1);
  if (measured_.operations == &PublishedTraffic::atomics) count(PortCount::kAtomics, 1);
}

void Requester::count_sent(const wire::Segment& segment, uint32_t frame) {
  PublishedTraffic& traffic = qp_.traffic();
  add_to(traffic.sent_bytes, traffic.sent_packets, packets_of_segment(segment, frame));
}

void Requester::count_sent_frame(uint32_t bytes) {
  add_to(qp_.traffic().sent_bytes, qp_.traffic().sent_packets, {bytes, 1});
}

void Requester::count_returned(const wire::Segment& segment) {
  PublishedTraffic& traffic = qp_.traffic();
  add_to(traffic.returned_bytes, traffic.returned_packets, packets_of_segment(segment, qp_.frame_bytes()));
}

void Requester::count_failure(Status status) {
  qp_.count(PortCount::kRequesterErrors);
  if (status == Status::kFlushed) qp_.count(PortCount::kRequesterFlushed);
  if (status == Status::kRemoteInvalidRequest) qp_.count(PortCount::kRequestInvalid);
  if (status == Status::kRemoteAccess) qp_.count(PortCount::kRequestDenied);
}

}  // namespace verbatim::engine
