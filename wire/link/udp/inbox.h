// SPDX-License-Identifier: MIT
#pragma once

// Datagrams out of a socket, several a call, each of which may be many packets of one flow (UDP_GRO).

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <span>

#include "base/gid.h"

namespace verbatim::wire::udp {

/// A datagram, or several of one sender and size, but for the last, which may be shorter.
struct Arrival {
  Gid source, destination;
  uint16_t source_port = 0;
  uint8_t traffic_class = 0, hop_limit = 0;
  uint32_t interface = 0;
  size_t packet_bytes = 0;
  std::span<const uint8_t> bytes;
};

/// One caller at a time.
class Inbox {
 public:
  static constexpr uint32_t kMessages = 16;

  Inbox();
  /// Takes what there is, but not too much at a time; how many datagrams. They are valid until the next call.
  /// `more`: there may be others.
  uint32_t receive(int socket, bool& more);
  /// False: cut off, or not told where it was sent to.
  bool read(uint32_t index, Arrival& arrival) const;

 private:
  static constexpr size_t kBytes = 65536, kControlBytes = 192;
  struct alignas(size_t) Control {
    uint8_t bytes[kControlBytes];
  };
  uint32_t most_ = kMessages;    ///< of a call
  uint32_t filled_ = kMessages;  ///< by the last one
  bool vain_ = false;            ///< that one found nothing
  std::unique_ptr<uint8_t[]> bytes_;
  std::array<sockaddr_in6, kMessages> from_;
  std::array<iovec, kMessages> vectors_;
  std::array<Control, kMessages> controls_;
  std::array<mmsghdr, kMessages> messages_;
};

}  // namespace verbatim::wire::udp
