// SPDX-License-Identifier: MIT
// The clocks of devices. A program opens /dev/ptp5642.., behind which nothing is, and asks for the time of
// the descriptor. Completions are stamped with the host's time, so that is what the clock shows.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "tools/redirect/next.h"

using verbatim::redirect::g_next;

namespace {

/// How a descriptor becomes a clock: its complement above three bits that say so.
constexpr int kOfDescriptor = 3, kBits = 3;

bool is_of_a_device(clockid_t clock) {
  if ((clock & ((1 << kBits) - 1)) != kOfDescriptor) return false;
  struct stat status {};
  return fstat(~(clock >> kBits), &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (__builtin_expect(clock < 0, 0) && is_of_a_device(clock)) clock = CLOCK_REALTIME;
  return g_next.clock_gettime(clock, now);
}

#pragma GCC visibility pop
