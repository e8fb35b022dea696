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

/// An operation of a device's table that is another one while this lives.
template <class Operation>
class Replaced {
 public:
  Replaced(Operation& place, Operation by) : place_(place), former_(place) { place = by; }
  ~Replaced() { place_ = former_; }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  Operation& place_;
  Operation former_;
};

/// While it lives, queue pairs are made without operations of the extended interface, which go to `as`
/// instead.
class PretendedOperations {
 public:
  explicit PretendedOperations(ibv_qp_ex& as);
  ~PretendedOperations();
  PretendedOperations(const PretendedOperations&) = delete;
  PretendedOperations& operator=(const PretendedOperations&) = delete;
  /// IBV_QP_EX_WITH_* that the last queue pair was asked for.
  static uint64_t asked();
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
