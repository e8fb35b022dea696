// SPDX-License-Identifier: MIT
#pragma once

#include "wire/link/channel.h"

namespace verbatim::wire {

/// A channel that `is_wire`: what all of them say of a host that packets alone reach.
class WireChannel : public Channel {
 public:
  void forbid_pull() final {}
  bool alive() final { return true; }
  bool lossless() const final { return false; }
  bool is_wire() const final { return true; }
  void nudge() final {}
  const std::byte* published() const final { return nullptr; }
  const std::byte* testament() const final { return nullptr; }
  uint32_t enter_access() final { return 0; }
  void leave_access(uint32_t) final {}
  bool write_direct(uint64_t, const Piece*, uint32_t) final { return false; }
  bool read_direct(uint64_t, const Piece*, uint32_t) final { return false; }
};

}  // namespace verbatim::wire
