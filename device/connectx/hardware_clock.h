// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "base/ticks.h"

namespace verbatim::connectx {

/// The device's free-running clock: the processor's.
inline uint64_t hardware_ticks() { return processor_ticks(); }

/// Its frequency; measured once, about a millisecond at the first call.
uint32_t hardware_clock_khz();

}  // namespace verbatim::connectx
