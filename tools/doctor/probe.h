// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/doctor/address.h"

namespace verbatim::doctor {

/// What came back of packets: an ICMP message, or the kernel's own refusal.
struct Refusal {
  enum class Kind : uint8_t {
    kPortClosed,   ///< the host is up, and nobody has the port
    kTooBig,       ///< see `mtu`
    kProhibited,   ///< by a firewall or router
    kUnreachable,  ///< a router, or this host itself, cannot deliver
    kHere,         ///< the kernel did not send it, see `error`
  };
  Kind kind = Kind::kUnreachable;
  int error = 0;           ///< errno value
  std::string told_by;     ///< address; empty: the kernel here
  bool by_itself = false;  ///< it was this host that told
  uint32_t mtu = 0;        ///< of IP packets, 0: not told
};

/// A UDP socket towards one port of a host, whose datagrams nobody takes for RoCEv2, and what is told about
/// them.
class Probe {
 public:
  Probe(const Address& host, uint16_t port);
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  /// Sends an IP packet of that size (0: the smallest), which nobody may fragment.
  std::optional<Refusal> send(uint32_t packet_bytes);
  /// Becomes readable, or in error, when something was told; -1: there is no socket.
  int file() const { return socket_; }
  /// What was told, if something was.
  std::optional<Refusal> told();

 private:
  int socket_ = -1;
  bool ipv4_;
  Gid source_;
};

}  // namespace verbatim::doctor
