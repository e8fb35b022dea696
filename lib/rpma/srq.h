// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "lib/rpma/completions.h"

/// A shared receive queue, with a completion queue of its own where its parameters ask for one.
struct rpma_srq {
  ibv_srq* queue = nullptr;
  std::unique_ptr<rpma_cq> rcq;
};
