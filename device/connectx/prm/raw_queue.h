// SPDX-License-Identifier: MIT
#pragma once

// Receive and send queues that are not part of a queue pair, as their context describes them.

#include "abi/prm/raw_queues.h"
#include "device/connectx/prm/command.h"
#include "device/connectx/prm/object_store.h"
#include "engine/steering.h"

namespace verbatim::prm {

/// Where a work queue lies, and where its entries complete.
struct RawQueueSpec {
  uint32_t umem = 0;
  uint64_t offset = 0, bytes = 0;  ///< in the umem
  uint32_t doorbell_umem = 0;
  uint64_t doorbell_offset = 0;  ///< of two words
  uint32_t log_entries = 0;
  uint32_t cqn = 0, user_index = 0;
  bool flushes = false;  ///< posted entries complete when the queue fails
  uint32_t pd = 0;
  uint32_t strides = 0;  ///< of a receive queue: an entry is of so many, each for a frame; 0: of one frame
  uint32_t stride_bytes = 0;  ///< of one of them
  bool pads_strides = false;  ///< two bytes of zeros lie in front of each frame
  bool delays_drop = false;   ///< frames wait for receive requests
  engine::FrameWishes wishes;
};

/// A work queue at work.
class RawQueueBody : public ObjectBody {
 public:
  /// Called once the queue of that number has entered a state.
  virtual void enter(RqState state, uint32_t number) = 0;
  /// What is to be changed in frames from now on.
  virtual void wish(const engine::FrameWishes& wishes) = 0;
  /// Whether it has gone to ERR, perhaps by itself.
  virtual bool has_failed() = 0;
};

/// Reads what is the same in all work queues; refuses what the device cannot do.
Result read_raw_queue(View<Wq> context, bool receives, RawQueueSpec& spec);

}  // namespace verbatim::prm
