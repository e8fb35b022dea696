// SPDX-License-Identifier: MIT
#pragma once

#include "lib/ibverbs/memory_region.h"

namespace verbatim::verbs {

/// Makes a region that is paged on demand known to ibv_advise_mr(); others are left alone.
void expect_advice(MemoryRegion& region);
/// Forgets a region.
void expect_no_advice(MemoryRegion& region);

/// ibv_advise_mr(): has pages of such regions there before they are used.
int advise_memory(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* pieces, uint32_t count);

}  // namespace verbatim::verbs
