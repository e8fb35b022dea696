// SPDX-License-Identifier: MIT
#include "wire/link/udp/udp_channel.h"

#include <algorithm>
#include <cerrno>

#include "wire/link/udp/outbox.h"
#include "wire/link/udp/udp_fabric.h"

namespace verbatim::wire::udp {

/// Sees how one segment went.
class UdpChannel::Observer final : public Sender {
 public:
  explicit Observer(UdpChannel& channel) : channel_(channel) {}
  int error() const { return last_.error; }
  bool no_segments() const { return last_.no_segments; }
  void on_sent(const Sent& sent) override {
    last_ = sent;
    channel_.on_sent(sent);
  }

 private:
  UdpChannel& channel_;
  Sent last_;
};

SendResult UdpChannel::send(const Segment& segment, const Piece* pieces, uint32_t, bool, Segment*) {
  const uint32_t longest = std::min(segment.length, segment.path_mtu);
  // What the kernel refuses goes in another way at once, but not what was held back until then.
  if (longest <= fits_.load(std::memory_order_relaxed)) return send(*this, segment, pieces, {false, true});
  const bool fragments = longest >= too_long_.load(std::memory_order_relaxed);
  Observer sent(*this);
  SendResult result = send(sent, segment, pieces, {fragments, false});
  if (sent.no_segments()) result = send(sent, segment, pieces, {fragments, false});
  if (sent.error() == EMSGSIZE && !fragments) {
    too_long_.store(longest, std::memory_order_relaxed);
    segments_.store(true, std::memory_order_relaxed);  // it was the length that was refused
    result = send(sent, segment, pieces, {true, false});
  } else if (sent.error() == 0 && !fragments && result == SendResult::kAccepted) {
    fits_.store(longest, std::memory_order_relaxed);
  }
  return result;
}

SendResult UdpChannel::send(Sender& sender, const Segment& segment, const Piece* pieces, How how) {
  Way way;
  if (!fabric_.way_of(segment, how.fragments, way)) return SendResult::kUnreachable;
  if (!remote_.is_zero()) way.destination = remote_;
  if (way.source.is_ipv4_mapped() != way.destination.is_ipv4_mapped()) return SendResult::kUnreachable;
  const bool segments = !how.fragments && segments_.load(std::memory_order_relaxed);
  return Outbox::mine().send(&sender, way, segment, pieces, segments, how.may_wait);
}

void UdpChannel::on_sent(const Sent& sent) {
  if (sent.no_segments) segments_.store(false, std::memory_order_relaxed);
  if (sent.error == EMSGSIZE) fits_.store(0, std::memory_order_relaxed);
  last_error_.store(sent.error, std::memory_order_relaxed);
  fabric_.note_sent(sent.busy);
}

}  // namespace verbatim::wire::udp
