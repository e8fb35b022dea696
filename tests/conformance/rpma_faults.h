// SPDX-License-Identifier: MIT
#pragma once

// Calls of libibverbs, librdmacm and malloc that fail when a case says so: its program's own functions of
// these names stand in front of the libraries'.

#include <infiniband/verbs.h>

#include <string>

namespace verbatim::conformance {

/// Makes the next call of that name fail with this errno value, while it lives. Calls that free something do
/// so first.
class Fault {
 public:
  explicit Fault(std::string call, int error = EIO, int calls_before = 0);
  ~Fault();
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
  /// Whether the call was made, and failed.
  static bool has_struck();
};

/// Turns the next event of the connection manager into one of another type.
void turn_next_event_into(int type);
/// Gives this queue instead of the next completion event's own.
void turn_next_completion_event_into(ibv_cq* cq);

/// Makes librpma find no memory while it lives; false where a sanitizer has malloc.
class NoMemory {
 public:
  NoMemory();
  ~NoMemory();
  static bool works();
};

}  // namespace verbatim::conformance
