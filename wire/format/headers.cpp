// SPDX-License-Identifier: MIT
#include "wire/format/headers.h"

namespace verbatim::roce {

namespace {

constexpr uint32_t k10us = 10'000;

// Code 0 is the longest; the others double every second step.
constexpr uint32_t kRnrTimers10us[32] = {
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

}  // namespace

uint32_t rnr_timer_ns(uint8_t code) { return kRnrTimers10us[code & 31] * k10us; }

uint32_t credits_of(uint8_t code) {
  if (code < 4) return code;
  // 4, 6, 8, 12, 16, 24, ...
  const uint32_t power = 1u << code / 2;
  return code % 2 == 0 ? power : power + power / 2;
}

}  // namespace verbatim::roce
