// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

namespace verbatim {

/// A store-load fence whose cost lies on the side that seldom runs it.
///
/// "Store x, fence, load y" against "store y, fence, load x": at least one side sees the other's store. A sender runs
/// its side for every message, a receiver only before it sleeps. So the receiver asks the kernel to run a barrier on
/// every processor that executes a registered process (membarrier(2), global expedited), and the sender only keeps its
/// compiler from reordering. Both work across processes, need no rights, and are thread safe.

/// Registers this process, so that other processes' `heavy_fence` reaches its threads. Until then, and where the
/// kernel refuses, `light_fence` is a full fence. May take tens of milliseconds in a process with several threads.
void register_for_heavy_fences();

/// Whether this process is registered.
extern std::atomic<bool> heavy_fences_reach_us;

/// The side that runs often. `alone`: the other side has said that it cannot run `heavy_fence`.
inline void light_fence(bool alone) {
  if (!alone && heavy_fences_reach_us.load(std::memory_order_relaxed))
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

/// The side that runs seldom; some microseconds. False: the kernel refuses (ENOSYS, or a filter's EPERM), the fence
/// holds for this thread only.
bool heavy_fence();

}  // namespace verbatim
