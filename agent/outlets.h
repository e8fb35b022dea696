// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/expected.h"

namespace verbatim::agent {

/// Networks that Ethernet frames of devices go to beside the host's programs, and come from: a TAP device,
/// whose other end is the kernel's, or an interface that is there already, by a packet socket.
///
/// The agent opens each once and hands the same open file to every process that asks. Whoever reads a frame
/// from it passes it on to all others, so that none comes twice, and none waits for a process that sleeps.
class Outlets {
 public:
  Outlets() = default;
  ~Outlets();
  Outlets(const Outlets&) = delete;
  Outlets& operator=(const Outlets&) = delete;

  /// The file for "tap=NAME" or "interface=NAME", which stays this object's; for the process with this slot.
  /// Errors: EPERM the user may not open such a thing here, ENODEV there is no such interface, EBUSY it is in
  /// use, EINVAL the name is none.
  Expected<int> open(uint32_t slot, const std::string& name);
  /// A process of an earlier agent has this one, which is taken over unless there is one already. True: it
  /// was.
  bool take_back(uint32_t slot, const std::string& name, int file);
  /// The process has gone. What nobody uses any more is closed.
  void leave(uint32_t slot);

 private:
  struct Outlet {
    int file = -1;
    std::set<uint32_t> users;
  };
  std::map<std::string, Outlet> outlets_;
};

}  // namespace verbatim::agent
