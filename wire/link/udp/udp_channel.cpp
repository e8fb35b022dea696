// SPDX-License-Identifier: MIT
#include "wire/link/udp/udp_channel.h"

#include "wire/link/udp/outbox.h"
#include "wire/link/udp/udp_fabric.h"

namespace verbatim::wire::udp {

SendResult UdpChannel::send(const Segment& segment, const Piece* pieces, uint32_t, bool, Segment*) {
  Way way;
  if (!fabric_.way_of(segment, way)) return SendResult::kUnreachable;
  if (!remote_.is_zero()) way.destination = remote_;
  if (way.source.is_ipv4_mapped() != way.destination.is_ipv4_mapped()) return SendResult::kUnreachable;
  Sent sent;
  const SendResult result =
      Outbox::mine().send(way, segment, pieces, segments_.load(std::memory_order_relaxed), sent);
  if (sent.no_segments) segments_.store(false, std::memory_order_relaxed);
  last_error_.store(sent.error, std::memory_order_relaxed);
  fabric_.note_sent(result == SendResult::kBusy);
  return result;
}

}  // namespace verbatim::wire::udp
