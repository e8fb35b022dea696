// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim::rdmacm {

/// Spaces out the connection requests of a listener. Programs give each from the thread that takes events to
/// another one through a single place (rping -P), and lose those that follow too soon: requests of a network
/// are further apart than those of one host.
class Handover {
 public:
  /// The next request is about to be shown: waits a moment for something to be done with the one before.
  void await();
  /// The request that brought this id has been shown.
  void note_shown(uint32_t child) { child_.store(child, std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kVainMax = 4;
  std::atomic<uint32_t> child_{0},
      vain_{0};  ///< vain: this program takes its time, and need not be waited for
};

}  // namespace verbatim::rdmacm
