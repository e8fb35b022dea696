// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

#include "wire/link/udp/outbox.h"
#include "wire/link/wire_channel.h"

namespace verbatim::wire::udp {

class UdpFabric;

/// The way to another host, or to whichever host segments name.
class UdpChannel final : public WireChannel, private Sender {
 public:
  /// `remote` zero: to any.
  UdpChannel(UdpFabric& fabric, const Gid& remote) : fabric_(fabric), remote_(remote) {}

  const Gid& remote() const { return remote_; }
  /// errno of what the kernel refused last; 0: nothing.
  int last_error() const { return last_error_.load(std::memory_order_relaxed); }

  uint32_t payload_max(bool) const override { return kPayloadMax; }
  /// Packets that do not fit the interface go in fragments: a port of hardware would not let its queue pair
  /// have such a path MTU, but a program that asks for one need not fail here.
  SendResult send(const Segment& segment, const Piece* pieces, uint32_t count, bool may_pull,
                  Segment* answer) override;

 private:
  void on_sent(const Sent& sent) override;
  /// So many packets of 4096 bytes go in one run, which an IP packet bounds.
  static constexpr uint32_t kPayloadMax = 15 * 4096;

  class Observer;
  struct How {
    bool fragments, may_wait;
  };
  SendResult send(Sender& sender, const Segment& segment, const Piece* pieces, How how);

  UdpFabric& fabric_;
  const Gid remote_;
  std::atomic<int> last_error_{0};
  std::atomic<bool> segments_{true};            ///< the kernel cuts runs for this way
  std::atomic<uint32_t> fits_{0};               ///< payload bytes of a packet that fit the interface
  std::atomic<uint32_t> too_long_{UINT32_MAX};  ///< payload bytes of a packet that did not fit the interface
};

}  // namespace verbatim::wire::udp
