// SPDX-License-Identifier: MIT
#pragma once

#include "engine/elements.h"
#include "engine/steering.h"

namespace verbatim::engine {

/// A frame as one receiver gets it, while the frame lasts.
class ShapedFrame {
 public:
  ShapedFrame(const ArrivedFrame& frame, const FrameWishes& wishes, uint32_t tag);

  uint32_t bytes() const { return bytes_; }
  const FrameFacts& facts() const { return facts_; }
  /// Puts it into the memory of a receive request from `at` on, which is long enough. Nullptr, or why it
  /// could not be.
  Refusal store(const Elements& memory, uint64_t at = 0) const;

 private:
  struct Part {
    const uint8_t* from;
    uint32_t length;
  };
  Part parts_[3];  ///< one behind the other
  uint32_t bytes_ = 0;
  uint8_t fcs_[4] = {};
  FrameFacts facts_;
};

}  // namespace verbatim::engine
