// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <cstdint>

#include "base/expected.h"
#include "base/gid.h"

namespace verbatim::wire {

inline constexpr uint32_t kSlotsMax =
    1024;  ///< processes of one user in one network namespace; slot 0 is the agent's

namespace tap {
struct Board;
}

/// What one process gives another so that they can talk. The receiver of the handles owns the file
/// descriptors.
struct PeerHandles {
  int published = -1;  ///< memfd, sealed against shrinking, growing and new writable mappings
  int inbound = -1;    ///< memfd, sealed against shrinking and growing: the peer's inbound segment, writable
  int wake = -1;       ///< eventfd: a write wakes the peer's engine thread
  uint64_t generation = 0;    ///< of the slot; grows with every process that gets it
  uint32_t pid = 0;           ///< in the asking process's pid namespace, 0 when it is not visible there
  uint32_t primary_slot = 0;  ///< a process may own several slots; rings are named after its first
};

/// What the same-host link needs to know of the other processes; the agent's client answers. Thread safe.
class Neighborhood {
 public:
  virtual ~Neighborhood() = default;
  /// The handles of the process that owns `slot`. Errors: ESRCH nobody has it; EAGAIN the agent is away just
  /// now.
  virtual Expected<PeerHandles> introduce(uint32_t slot) = 0;
  /// The generation of a slot's present owner, 0: nobody. Never blocks (reads shared memory).
  virtual uint64_t slot_generation(uint32_t slot) const = 0;
  /// True when `gid` is an address of this host. Never blocks.
  virtual bool is_local(const Gid& gid) const = 0;
  /// Primary slots of the processes that have joined `group`; at most `max`. Never blocks.
  virtual uint32_t members(const Gid& group, uint32_t* slots, uint32_t max) const = 0;
  /// A socket on the port of RoCEv2 that is given what is for this process's queue pairs (wire/link/udp); the
  /// caller's.
  virtual Expected<int> open_wire() { return Error{EOPNOTSUPP, "there is no way to other hosts here"}; }
  /// What is shared of rules that damage packets; stays mapped for ever, but another may come. nullptr:
  /// nothing.
  virtual tap::Board* board() const { return nullptr; }
  /// The memory of the capture that runs (wire/link/tap/capture_file.h); the caller's. ENOENT: none does.
  virtual Expected<int> open_capture() { return Error{ENOENT, "nobody captures packets here"}; }
  /// The index of the interface that has this address, 0: none. Never blocks.
  virtual uint32_t interface_of(const Gid& gid) const {
    (void)gid;
    return 0;
  }
  /// Indices of the interfaces at whose addresses others may reach this host, at most `max`; how many. Never
  /// blocks.
  virtual uint32_t interfaces(uint32_t* indices, uint32_t max) const {
    (void)indices;
    (void)max;
    return 0;
  }
};

}  // namespace verbatim::wire
