// SPDX-License-Identifier: MIT
#include "device/connectx/hardware_clock.h"

#include "base/clock.h"

namespace verbatim::connectx {

namespace {

uint32_t measure() {
#if defined(__aarch64__)
  uint64_t hertz;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
  return static_cast<uint32_t>(hertz / 1000);
#else
  constexpr uint64_t kNs = 1'000'000;
  const SystemClock clock;
  const uint64_t began_ns = clock.now_ns(), began = hardware_ticks();
  uint64_t now_ns = began_ns;
  while (now_ns - began_ns < kNs) now_ns = clock.now_ns();
  return static_cast<uint32_t>((hardware_ticks() - began) * 1'000'000 / (now_ns - began_ns));
#endif
}

}  // namespace

uint32_t hardware_clock_khz() {
  static const uint32_t khz = measure();
  return khz;
}

}  // namespace verbatim::connectx
