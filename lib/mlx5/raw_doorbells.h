// SPDX-License-Identifier: MIT
#pragma once

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {

/// The queue's doorbells may be rung by plain stores from now on, until it is destroyed. Returns the UAR page
/// that the context's raw queues share; nullptr: no memory.
std::byte* expose(QueuePair& qp);
/// The same for the arm doorbell; its consumer index is the program's from now on.
std::byte* expose(CompletionQueue& cq);

/// Before the device destroys it. False: it was not exposed.
bool conceal(QueuePair& qp);
bool conceal(CompletionQueue& cq);

}  // namespace verbatim::mlx5
