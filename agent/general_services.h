// SPDX-License-Identifier: MIT
#pragma once

// Queue pair 1 of this host (the specification calls it the general services interface): management datagrams
// to and from other hosts, each a datagram of RoCEv2.

#include <functional>
#include <memory>

#include "agent/cm/connection.h"
#include "wire/link/segment.h"
#include "wire/link/tap/tap.h"
#include "wire/link/udp/inbox.h"

namespace verbatim::agent {

class GeneralServices {
 public:
  /// `tap`: what is sent passes it.
  explicit GeneralServices(wire::tap::Tap& tap) : tap_(tap) {}
  ~GeneralServices();
  GeneralServices(const GeneralServices&) = delete;
  GeneralServices& operator=(const GeneralServices&) = delete;

  /// From a socket of its own. `interface`: that `local` belongs to. What the network does not take is lost.
  void send(const Gid& local, uint32_t interface, const Gid& remote, std::span<const uint8_t> mad);
  /// For who captures packets: the same has gone from this host to itself.
  void note(const Gid& local, const Gid& remote, std::span<const uint8_t> mad);
  /// Takes what has come to a socket on the port of RoCEv2, up to some hundred datagrams: what is for queue
  /// pair 1 and whole.
  void receive(int socket, const std::function<void(const cm::Arrival&)>& arrived);

 private:
  bool open();
  wire::Segment next_segment(std::span<const uint8_t> mad);

  wire::tap::Tap& tap_;
  int sending_ = -1;
  uint16_t port_ = 0;
  uint32_t psn_ = 0;
  std::unique_ptr<wire::udp::Inbox> inbox_;  ///< a megabyte: only where other hosts are
};

}  // namespace verbatim::agent
