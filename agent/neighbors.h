// SPDX-License-Identifier: MIT
#pragma once

// Whether the network knows where the next hop to an address is (ARP, neighbor discovery), as the kernel
// tells anybody.

#include <linux/netlink.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "agent/cm/socket_address.h"

namespace verbatim::agent {

class Neighbors {
 public:
  Neighbors() = default;
  ~Neighbors();
  Neighbors(const Neighbors&) = delete;
  Neighbors& operator=(const Neighbors&) = delete;

  /// Where it is not known the kernel is made to ask the network. True also where nothing can be told, and
  /// where nobody has to be asked.
  bool is_known(const cm::SocketAddress& destination);

 private:
  struct Hop {
    cm::SocketAddress address;
    uint32_t interface = 0;
  };
  struct Attribute {
    uint16_t type;
    const cm::SocketAddress& address;
  };
  /// One request and its answer, in `answer_`; nullptr: refused.
  const nlmsghdr* ask(uint16_t type, const void* body, size_t bytes, const Attribute& attribute,
                      uint32_t interface);
  std::optional<Hop> next_hop(const cm::SocketAddress& destination);
  uint16_t state_of(const Hop& hop);
  void provoke(const cm::SocketAddress& destination);

  int netlink_ = -1;
  uint32_t sequence_ = 0;
  std::vector<uint8_t> request_, answer_;
};

}  // namespace verbatim::agent
