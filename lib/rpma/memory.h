// SPDX-License-Identifier: MIT
#pragma once

#include "lib/rpma/public.h"

/// Registered local memory.
struct rpma_mr_local {
  ibv_mr* region = nullptr;
  int usage = 0;       ///< RPMA_MR_USAGE_*
  bool paged = false;  ///< registered for on-demand paging
};

/// Memory of the other side, as its descriptor said.
struct rpma_mr_remote {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t key = 0;
  int usage = 0;  ///< RPMA_MR_USAGE_*
};

namespace verbatim::rpma {

/// Part of local memory as a work request names it. The device checks the range.
inline ibv_sge part_of(const rpma_mr_local& memory, size_t offset, size_t bytes) {
  return {reinterpret_cast<uintptr_t>(memory.region->addr) + offset, static_cast<uint32_t>(bytes),
          memory.region->lkey};
}

}  // namespace verbatim::rpma
