// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/spinlock.h"
#include "engine/work.h"

namespace verbatim::engine {

/// What a received message meets: whose memory keys count, and where receive requests and completions are.
struct Landing {
  uint32_t domain = 0;  ///< protection domain number
  ReceiveQueue* receive = nullptr;
  ReceiveSink* sink = nullptr;
};

/// A shared receive queue of an XRC domain: any receiver of the domain takes messages for it.
struct SharedQueue {
  uint64_t xrc_domain = 0;
  Landing landing;
};

/// Those of a process, by number. Thread safe; what was found stays valid as Engine::remove_shared_queue
/// says.
class SharedQueues {
 public:
  void add(uint32_t number, const SharedQueue& queue);
  void remove(uint32_t number);
  /// False: there is none of this number.
  bool find(uint32_t number, SharedQueue& queue) const;

 private:
  mutable SpinLock lock_;
  std::unordered_map<uint32_t, SharedQueue> queues_;
};

}  // namespace verbatim::engine
