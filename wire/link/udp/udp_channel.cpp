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
  const bool segments = segments_.load(std::memory_order_relaxed);
  SendResult result = send(segment, pieces, fragments);
  if (segments && !segments_.load(std::memory_order_relaxed)) result = send(segment, pieces, fragments);
  if (last_error() != EMSGSIZE || fragments) return result;
  too_long_.store(longest, std::memory_order_relaxed);
  segments_.store(true, std::memory_order_relaxed);
  return send(segment, pieces, true);
}

SendResult UdpChannel::send(const Segment& segment, const Piece* pieces, bool fragments) {
  Way way;
  if (!fabric_.way_of(segment, fragments, way)) return SendResult::kUnreachable;
  if (!remote_.is_zero()) way.destination = remote_;
  if (way.source.is_ipv4_mapped() != way.destination.is_ipv4_mapped()) return SendResult::kUnreachable;
  Sent sent;
  const bool segments = !fragments && segments_.load(std::memory_order_relaxed);
  const SendResult result = Outbox::mine().send(way, segment, pieces, segments, sent);
  if (sent.no_segments) segments_.store(false, std::memory_order_relaxed);
  last_error_.store(sent.error, std::memory_order_relaxed);
  fabric_.note_sent(result == SendResult::kBusy);
  return result;
}

}  // namespace verbatim::wire::udp
