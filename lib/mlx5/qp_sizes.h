// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "base/expected.h"
#include "lib/ibverbs/provider.h"

namespace verbatim::mlx5 {

/// Geometry of a queue pair's rings.
struct QueueSizes {
  uint32_t send_blocks = 0;  ///< power of two, 0: none
  uint32_t send_depth = 0;   ///< work requests
  uint32_t send_sge = 0;
  uint32_t inline_bytes = 0;
  uint32_t receive_entries = 0;  ///< power of two, 0: none
  uint32_t receive_stride = 0;   ///< bytes
  uint32_t receive_sge = 0;
};

/// Rounds what is asked for up as a ConnectX's library does: every send work request may take as many blocks
/// as the longest one of its type. EINVAL: does not fit.
/// IBV_QPT_DRIVER stands for a DC initiator. `header`: bytes in front of what a request has cut into frames.
Expected<QueueSizes> plan_queues(ibv_qp_type type, const ibv_qp_cap& cap, bool shared_receive,
                                 uint32_t header = 0);

/// Bytes of a shared receive queue's entry.
uint32_t shared_receive_stride(uint32_t sge);

}  // namespace verbatim::mlx5
