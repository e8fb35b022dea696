// SPDX-License-Identifier: MIT
// Datagrams: one segment each, to a queue pair or to all members of a multicast group.
#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"
#include "engine/traffic.h"

namespace verbatim::engine {

using wire::Segment;
using wire::SendResult;

namespace {
constexpr uint32_t kMulticastFanout = 256;
}  // namespace

// What an address vector says of the way.
void Requester::address_to(const Destination& to, Segment& segment) const {
  segment.service_level = to.service_level;
  segment.has_grh = to.has_grh;
  segment.dest_gid = to.gid;
  segment.flow_label = to.flow_label;
  segment.traffic_class = to.traffic_class;
  segment.hop_limit = to.hop_limit;
  const Port& port = *qp_.spec().port;
  const GidEntry source = port.is_infiniband() ? GidEntry{port.gid, GidType::kInfiniband}
                                               : engine_.host().gid(to.source_gid_index);
  segment.source_gid = source.gid;
  segment.gid_type = source.type;
  segment.source_lid = port.lid;
  segment.dest_lid = to.lid;
  if (port.is_infiniband()) segment.pkey = qp_.pkey();
}

Requester::Step Requester::send_datagram(Message& message) {
  const Destination& to = message.work.destination;
  Segment segment = make_segment(message, message.length);
  segment.dest_qpn = to.qpn;
  segment.qkey = to.qkey & 0x80000000 ? qp_.attributes().qkey : to.qkey;
  const Port& port = *qp_.spec().port;
  address_to(to, segment);
  next_psn_ = wire::psn_add(next_psn_, 1);
  wire::Channel* ways[kMulticastFanout];
  Window window;
  uint8_t staged[kDatagramBytesMax];
  if (message.scattered) [[unlikely]]
    if (const char* why = gather_datagram(message, window, staged))
      return fail_local(message.index, message.next_index, message.work, Status::kLocalProtection, why);
  const wire::Piece* pieces = message.scattered ? window.pieces : message.pieces;
  const uint32_t piece_count = message.scattered ? window.count : message.count;

  uint32_t count = 0;
  if (to.has_grh && to.gid.is_multicast())
    count = port.down ? 0 : engine_.fabric().multicast(to.gid, ways, kMulticastFanout);
  else if ((ways[0] = way_of_datagram(engine_.fabric(), port, {to.gid, to.lid, to.qpn})))
    count = 1;
  const bool on_wire = count > 1 && ways[count - 1]->is_wire();
  for (uint32_t i = 0; i < count; i++) {
    Segment unused;
    if (count > 1 && (on_wire ? !ways[i]->is_wire() : i > 0)) segment.flags |= wire::kRepeated;
    if (ways[i]->is_wire()) segment.flags &= static_cast<uint16_t>(~wire::kRepeated);
    const uint32_t room = engine_.room_epoch();
    const SendResult result = ways[i]->send(segment, pieces, piece_count, false, &unused);
    if (result == SendResult::kSourceFault)
      return fail_local(message.index, message.next_index, message.work, Status::kLocalProtection,
                        "memory of the work request is not mapped");
    // A slow listener must not hold up a group: its copy is dropped, as datagrams may be.
    if (result == SendResult::kBusy && count == 1) {
      engine_.wait_for_room(qp_, room);
      return Step::kStop;
    }
  }
  count_sent(segment, frame_bytes(port, to.gid, to.has_grh));
  if (to.has_grh && to.gid.is_multicast()) qp_.count(PortCount::kMulticastSent);
  charge(message.length);
  return after_message(message);
}

}  // namespace verbatim::engine
