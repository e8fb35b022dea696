// SPDX-License-Identifier: MIT
#pragma once

#include "device/connectx/formats.h"
#include "lib/ibverbs/public.h"

namespace verbatim::mlx5 {

/// Writes the elements of a receive from `segment` on; room for `most` of them. Empty elements are left out.
inline void write_elements(connectx::DataSegment* segment, uint32_t most, const ibv_recv_wr& wr) {
  uint32_t used = 0;
  for (int i = 0; i < wr.num_sge; i++) {
    const ibv_sge& sge = wr.sg_list[i];
    if (sge.length == 0) continue;
    segment[used].byte_count = sge.length;
    segment[used].lkey = sge.lkey;
    segment[used].address = sge.addr;
    used++;
  }
  if (used == most) return;
  segment[used].byte_count = 0;
  segment[used].lkey = connectx::kInvalidKey;
  segment[used].address = 0;
}

}  // namespace verbatim::mlx5
