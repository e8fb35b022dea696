// SPDX-License-Identifier: MIT
#pragma once

// Building a batch of send work requests in place: shared by the ibv_wr_ and the mlx5dv_wr_ calls. Between
// wr_start and wr_complete or wr_abort, with the send queue's lock held.

#include "lib/mlx5/send_entry.h"

namespace verbatim::mlx5 {

/// Begins a work request: False: the batch has failed. Else the control segment is written and batch.at
/// stands behind it. `immediate` as it goes into memory.
bool begin_request(QueuePair& qp, uint8_t opcode, uint32_t immediate);
/// Ends the one under construction, if any.
void end_request(QueuePair& qp);

/// Beside the work request under construction.
inline SendSlot& current_slot(QueuePair& qp) { return qp.slots[qp.block & (qp.blocks - 1)]; }

/// Units that one work request of the queue may take.
inline uint32_t units_max(const QueuePair& qp) {
  if (qp.depth == 0) return 0;
  const uint32_t units = qp.blocks / qp.depth * (kBlock / kUnit);
  return units < kUnitsMax ? units : kUnitsMax;
}

}  // namespace verbatim::mlx5
