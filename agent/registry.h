// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "agent/directory.h"
#include "base/expected.h"

namespace verbatim::agent {

/// Who has which slot and is in which group: the agent's state, apart from sockets. Writes the directory.
class Registry {
 public:
  /// `slot_is_owned`: some living process holds the proof of this slot, though it is not registered here (it
  /// will be back when it notices that the agent was restarted).
  Registry(Directory& directory, uint64_t first_generation, std::function<bool(uint32_t)> slot_is_owned);

  struct Grant {
    uint32_t slot = 0;
    uint64_t generation = 0;
  };
  /// A new process. ENOMEM: all slots are taken.
  Expected<Grant> join(uint32_t pid);
  /// A process that had this slot from an earlier agent, as its proof shows. EBUSY: somebody else has it.
  Expected<Grant> rejoin(uint32_t pid, uint32_t slot, uint64_t generation);
  /// One more slot of the process with primary slot `primary`; `wanted` non-zero: that one, which it had
  /// before. ENOSPC: it has as many as a process may.
  Expected<Grant> extra(uint32_t primary, uint32_t wanted);
  /// The process has gone: frees its slots, leaves its groups.
  void leave(uint32_t primary);

  /// ENOSPC: the table of groups is full. Joining twice, or leaving what was not joined, does nothing.
  Outcome join_group(uint32_t primary, const Gid& group);
  void leave_group(uint32_t primary, const Gid& group);

 private:
  Expected<uint32_t> free_slot();
  void take(uint32_t slot, uint32_t primary, uint32_t pid, uint64_t generation);
  template <class Change>
  void change_groups(Change change);

  Directory& directory_;
  uint64_t next_generation_;
  std::function<bool(uint32_t)> slot_is_owned_;
  uint32_t last_slot_ = 0;
};

}  // namespace verbatim::agent
