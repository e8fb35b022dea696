// SPDX-License-Identifier: MIT
#include "wire/link/udp/udp_channel.h"

#include <algorithm>
#include <cerrno>

#include "wire/link/udp/outbox.h"
#include "wire/link/udp/udp_fabric.h"

namespace verbatim::wire::udp {

SendResult UdpChannel::send(const Segment& segment, const Piece* pieces, uint32_t, bool, Segment*) {
  const uint32_t longest = std::min(segment.length, segment.path_mtu);
  const bool fragments = longest >= too_long_.load(std::memory_order_relaxed);
  Sent sent;
  SendResult result = send(segment, pieces, fragments, sent);
  if (sent.no_segments) {
    segments_.store(false, std::memory_order_relaxed);
    result = send(segment, pieces, fragments, sent);
  }
  if (sent.error == EMSGSIZE && !fragments) {
    too_long_.store(longest, std::memory_order_relaxed);
    segments_.store(true, std::memory_order_relaxed);  // it was the length that was refused
    result = send(segment, pieces, true, sent);
  }
  last_error_.store(sent.error, std::memory_order_relaxed);
  fabric_.note_sent(result == SendResult::kBusy);
  return result;
}

SendResult UdpChannel::send(const Segment& segment, const Piece* pieces, bool fragments, Sent& sent) {
  sent = Sent{};
  Way way;
  if (!fabric_.way_of(segment, fragments, way)) return SendResult::kUnreachable;
  if (!remote_.is_zero()) way.destination = remote_;
  if (way.source.is_ipv4_mapped() != way.destination.is_ipv4_mapped()) return SendResult::kUnreachable;
  const bool segments = !fragments && segments_.load(std::memory_order_relaxed);
  return Outbox::mine().send(way, segment, pieces, segments, sent);
}

}  // namespace verbatim::wire::udp
