// SPDX-License-Identifier: MIT
#pragma once

// Packets on their way into a socket: laid out one behind the other, and handed to the kernel in runs of
// equal size (UDP_SEGMENT), several runs a call. Small ones of several segments gather during a burst of the
// thread (wire/link/burst.h).

#include <sys/socket.h>

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "wire/format/ip.h"
#include "wire/link/burst.h"
#include "wire/link/channel.h"
#include "wire/link/roce/conversion.h"
#include "wire/link/tap/tap.h"

namespace verbatim::wire::udp {

/// What decides how a packet travels.
struct Way {
  int socket = -1;
  uint16_t port = 0;   ///< of the socket
  uint32_t scope = 0;  ///< of link-local addresses: index of the interface
  Gid source, destination;
  uint32_t flow_label = 0;
  uint8_t traffic_class = 0, hop_limit = 0;
  tap::Tap* tap = nullptr;  ///< what packets pass on their way
  friend bool operator==(const Way&, const Way&) = default;

  tap::Travel travel() const { return {envelope(), traffic_class, hop_limit, flow_label}; }
  roce::Envelope envelope() const { return {source, destination, port, roce::kRocePort, 0, true}; }
};

/// How a call to the kernel went.
struct Sent {
  int error = 0;             ///< errno of a packet that did not go
  bool busy = false;         ///< nothing went for want of room: the same may be tried again
  bool no_segments = false;  ///< the way does not take UDP_SEGMENT
};

/// Learns how its packets went.
class Sender {
 public:
  virtual void on_sent(const Sent& sent) = 0;

 protected:
  ~Sender() = default;
};

/// Of one thread.
class Outbox final : private HeldBack {
 public:
  /// That of the calling thread.
  static Outbox& mine();

  /// Sends the packets of a segment whose payload lies in these pieces.
  ///   sender    outlives the burst; nullptr: nobody wants to know
  ///   segments  the kernel may cut runs
  ///   may_wait  for the end of the burst
  SendResult send(Sender* sender, const Way& way, const Segment& segment, const Piece* pieces, bool segments,
                  bool may_wait);

 private:
  static constexpr uint32_t kRunsMax = 64, kControlBytes = 128;
  /// Packets of one size, but for the last, which may be shorter.
  struct Run {
    size_t begin, bytes, packet_bytes;
    uint32_t packets;
    bool ended;
  };
  void let_go() override { send_held(); }
  void send_held() {
    if (runs_ > 0 || kept_) (void)flush(false);
  }
  bool keep(const Segment& segment, PacketsOf& packets, bool segments, bool may_wait);
  void lay_out_kept();
  void take(const Way& way);
  bool gather(const Piece*& piece, size_t& offset, uint8_t* to, size_t bytes, uint32_t& icrc_state);
  uint16_t place(size_t packet_bytes, bool segments);
  bool lay_out(PacketsOf& packets, const Piece* pieces, bool segments, bool may_wait, bool& refused);
  bool has_room() const;
  void fill(uint32_t index);
  void inject();
  void record(uint32_t first, uint32_t count, uint64_t time_ns) const;
  bool flush(bool may_refuse);
  void hand_over(bool may_refuse, Sent& sent);

  Sender* sender_ = nullptr;           ///< of what is laid out
  std::optional<roce::Headers> kept_;  ///< an acknowledgement that waits for an answer to go along with

  std::optional<Way> way_;
  bool injects_ = false;   ///< rules look at each packet
  bool captures_ = false;  ///< somebody looks at what is sent
  uint32_t source_qpn_ = 0;
  std::optional<roce::PacketWriter> writer_;
  sockaddr_storage to_{};
  alignas(size_t) std::array<uint8_t, kControlBytes> control_{};
  size_t control_bytes_ = 0;

  uint64_t flushes_ = 0;
  size_t filled_ = 0;
  uint32_t runs_ = 0;
  std::array<Run, kRunsMax> run_;
  std::array<mmsghdr, kRunsMax> messages_;
  std::array<iovec, kRunsMax> vectors_;
  struct alignas(size_t) Control {
    uint8_t bytes[kControlBytes];
  };
  std::array<Control, kRunsMax> controls_;
  alignas(64) std::array<uint8_t, 128 << 10> bytes_;
};

}  // namespace verbatim::wire::udp
