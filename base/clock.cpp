// SPDX-License-Identifier: MIT
#include "base/clock.h"

#include <ctime>

namespace verbatim {

namespace {

uint64_t read(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

uint64_t SystemClock::now_ns() const { return read(CLOCK_MONOTONIC); }
uint64_t SystemClock::wall_ns() const { return read(CLOCK_REALTIME); }

}  // namespace verbatim
