// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace verbatim::engine {

/// Memory behind null memory regions: `kNullBytes` that read as zero, and as many that swallow writes without
/// costing pages. Made at the first call; nullptr when the address space is exhausted. Thread safe.
inline constexpr size_t kNullBytes = (1ull << 31) + 4096;
void* null_source();
void* null_sink();

}  // namespace verbatim::engine
