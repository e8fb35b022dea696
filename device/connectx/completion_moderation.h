// SPDX-License-Identifier: MIT
#pragma once

#include "device/connectx/completion_ring.h"
#include "engine/engine.h"

namespace verbatim::connectx {

/// What holds the event of a completion queue back.
class CompletionRing::Moderation final : public engine::Alarm {
 public:
  Moderation(CompletionRing& ring, engine::Engine& engine, uint16_t count, uint16_t period_us)
      : ring_(ring), engine_(engine), count_(count), period_ns_(uint64_t{period_us} * 1000) {}
  ~Moderation() override { engine_.clear_alarm(*this); }

  // With the queue's lock held.
  /// Whether the event waits for more, after these.
  bool holds_back(uint32_t completions);
  bool holds() const { return held_ != 0; }
  void forget() { held_ = 0; }

  void ring(uint64_t now_ns) override;

 private:
  CompletionRing& ring_;
  engine::Engine& engine_;
  const uint32_t count_;
  const uint64_t period_ns_;
  uint32_t held_ = 0;  ///< completions since the first that was to raise the event
};

}  // namespace verbatim::connectx
