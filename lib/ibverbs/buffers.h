// SPDX-License-Identifier: MIT
#pragma once

#include "lib/ibverbs/provider.h"

namespace verbatim::verbs {

/// Turns a registration of a part of a buffer (IBV_REG_MR_MASK_BUF) into one of memory or of a file. Nullptr,
/// or why it is refused.
const char* locate_in_buffer(ibv_pd* pd, ibv_mr_init_attr& attributes);

}  // namespace verbatim::verbs
