// SPDX-License-Identifier: MIT
// Moderation: an armed queue's event waits until so many completions have come, or until so much time has
// passed since the first of them. The completions themselves wait for nothing.
#include "device/connectx/completion_moderation.h"

#include <mutex>

namespace verbatim::connectx {

CompletionRing::~CompletionRing() = default;

// With the lock held.
bool CompletionRing::Moderation::holds_back(uint32_t completions) {
  if (held_ == 0) engine_.set_alarm(*this, engine_.clock().now_ns() + period_ns_);
  held_ += completions;
  return held_ < count_;
}

void CompletionRing::Moderation::ring(uint64_t /*now_ns*/) {
  const std::lock_guard<SpinLock> hold(ring_.lock_);
  if (held_ != 0) ring_.fire();
}

// With the lock held.
void CompletionRing::fire() {
  if (moderation_) moderation_->forget();
  armed_ = Armed::kNo;
  sink_.on_completion(face_);
}

void CompletionRing::moderate(engine::Engine& engine, uint16_t count, uint16_t period_us) {
  std::unique_ptr<Moderation> old;  // goes when the lock does not wait for the one who waits for it
  {
    const std::lock_guard<SpinLock> hold(lock_);
    if (moderation_ && moderation_->holds()) fire();
    old = std::move(moderation_);
    if (count > 1 && period_us != 0)
      moderation_ = std::make_unique<Moderation>(*this, engine, count, period_us);
  }
}

}  // namespace verbatim::connectx
