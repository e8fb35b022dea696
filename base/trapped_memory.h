// SPDX-License-Identifier: MIT
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/expected.h"

namespace verbatim {

/// A load or a store of a program at an address where there is no memory.
struct TrappedAccess {
  size_t offset = 0;  ///< from the beginning of the trapped addresses
  uint8_t bytes = 0;  ///< 1, 2, 4 or 8; all of them are within the addresses
  bool store = false;
  uint64_t value = 0;  ///< what is stored
};

/// What such an access does: returns what a load reads. It runs in a signal handler, one at a time: it takes
/// no lock, allocates nothing and touches nothing that may fault.
class Trap {
 public:
  virtual ~Trap() = default;
  virtual uint64_t carry_out(const TrappedAccess& access) = 0;
};

/// Maps `bytes`, rounded up to pages, where every access of the program goes to `trap`, as far as it is a
/// plain move. The program ends that with munmap(); `trap` is let go of some time after.
/// EOPNOTSUPP: accesses cannot be trapped on this processor, or the program handles SIGSEGV by itself;
/// ENOMEM: no addresses, or too many are trapped already.
Expected<void*> map_trapped(size_t bytes, std::shared_ptr<Trap> trap);

/// Whether this processor's accesses can be trapped.
bool can_trap();

/// For the handler of SIGSEGV: carries the access out and moves the thread on. False: it is none of these.
bool carry_out_trapped(const siginfo_t& info, void* context);

}  // namespace verbatim
