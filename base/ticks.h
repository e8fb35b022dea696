// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <ctime>

namespace verbatim {

/// The processor's free-running counter: a few nanoseconds to read; 1 to 4 ticks a nanosecond on x86-64, fewer elsewhere.
inline uint64_t processor_ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
#endif
}

}  // namespace verbatim
