// SPDX-License-Identifier: MIT
#include "base/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbatim {

std::atomic<bool> heavy_fences_reach_us{false};

void register_for_heavy_fences() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0)
    heavy_fences_reach_us.store(true, std::memory_order_relaxed);
}

bool heavy_fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

}  // namespace verbatim
