// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <ctime>

namespace verbatim::connectx {

/// The device's free-running clock: the processor's, which costs a few nanoseconds to read.
inline uint64_t hardware_ticks() {
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

/// Its frequency; measured once, about a millisecond at the first call.
uint32_t hardware_clock_khz();

}  // namespace verbatim::connectx
