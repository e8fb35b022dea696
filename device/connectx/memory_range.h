// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "base/expected.h"

namespace verbatim::connectx {

/// Checks that all of [address, address + length) is mapped in this process, and writable when `write`. Costs
/// a look at each mapping, not at each page. EFAULT: it is not.
Outcome check_range(uint64_t address, uint64_t length, bool write);

}  // namespace verbatim::connectx
