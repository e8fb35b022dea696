// SPDX-License-Identifier: MIT
#include "base/clock.h"

#include <ctime>

namespace verbatim {

uint64_t SystemClock::now_ns() const {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace verbatim
