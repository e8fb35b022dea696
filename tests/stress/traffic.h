// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "tests/stress/rig.h"

namespace verbatim::stress {

/// Mixed operations over a few queue pairs to one peer, for as long as it lasts. Both sides run the same. One
/// thread.
class Traffic {
 public:
  static constexpr uint32_t kQueuePairs = 4;
  struct Card {
    Address addresses[kQueuePairs];
    uint64_t memory = 0;
    uint32_t rkey = 0;
  };
  Traffic(const Device& device, uint64_t seed);
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  /// Errors of every kind are in order: the peer does not keep to the rules.
  void tolerate_any_end() { any_end_ = true; }
  /// Exchanges cards and connects. False: the peer went away meanwhile.
  bool meet(int socket);
  /// Keeps every queue pair busy and takes completions.
  void turn();
  /// Posts one more operation where nothing is under way, so that a dead peer cannot go unnoticed.
  void probe();
  /// Takes completions without posting; waits up to `wait_ms` for an event when there are none.
  void listen(int wait_ms);
  /// Every queue pair has ended with an error, and all of its work requests have been given back.
  bool all_ended() const;
  /// What has not, for a message.
  const char* state_text();
  uint64_t completed() const { return completed_; }
  bool any_failed() const;

 private:
  struct Lane {
    ibv_qp* qp = nullptr;
    uint32_t sends = 0, receives = 0;  ///< under way
    bool failed = false;
  };
  uint32_t below(uint32_t bound);
  bool post_operation(uint32_t lane);
  void post_receives(uint32_t lane);
  int take();

  const Device& device_;
  uint64_t random_;
  std::byte* memory_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  Lane lanes_[kQueuePairs];
  Card peer_;
  uint64_t completed_ = 0;
  bool any_end_ = false;
  char text_[160];
};

}  // namespace verbatim::stress
