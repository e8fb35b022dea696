// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/frame_headers.h"

namespace verbatim::engine {

class QueuePair;

/// Which frames a rule is for, and what happens to them.
struct FlowRule {
  enum class Kind : uint8_t { kSniffer, kNormal, kMulticastDefault, kAllDefault };
  Kind kind = Kind::kNormal;
  uint16_t priority = 0;   ///< the lowest is asked first
  bool passes_on = false;  ///< later rules see the frame, too
  bool drops = false;      ///< the frame goes nowhere
  uint32_t tag = 0;        ///< reported with the frame
  FrameHeaders value{}, mask{};

  bool matches(const FrameHeaders& frame) const;
};

/// The rules of one process. A frame goes to the first rule that it matches: normal ones by priority, those
/// of one priority by age; then the defaults. Further rules of that priority that say the same get a copy, as
/// do all sniffers. A queue pair gets one copy at most. Thread safe.
class Steering {
 public:
  struct Target {
    QueuePair* qp;
    uint32_t tag;
  };

  /// Its number, never 0.
  uint32_t add(QueuePair* qp, const FlowRule& rule);
  /// False: there is no such rule.
  bool remove(uint32_t number);
  /// Removes those of a queue pair; returns how many there were.
  uint32_t forget(const QueuePair* qp);
  std::vector<Target> match(const FrameHeaders& frame) const;

 private:
  struct Entry {
    uint32_t number;
    QueuePair* qp;
    FlowRule rule;
  };
  mutable std::mutex lock_;
  std::vector<Entry> entries_;  ///< in the order in which they are asked
  uint32_t last_number_ = 0;
};

}  // namespace verbatim::engine
