// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/frame_headers.h"

namespace verbatim::engine {

/// What rules have seen pass, of all that count here together.
struct FlowCount {
  std::atomic<uint64_t> frames{0}, bytes{0};

  void add(uint32_t length) {
    frames.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(length, std::memory_order_relaxed);
  }
};

/// A frame that has arrived, on its way to those who want it.
struct ArrivedFrame {
  const uint8_t* bytes;
  uint32_t length;
  const ParsedFrame& parsed;
  uint8_t right_checksums;  ///< frame_checksums.h
  uint32_t sender;          ///< queue pair of this host, 0: none
};

/// What a receiver of frames wants to have changed in them.
struct FrameWishes {
  bool strips_vlan = false;         ///< the tag is told in the completion, and not there any more
  bool keeps_fcs = false;           ///< the frame check sequence follows the frame
  bool looks_into_tunnels = false;  ///< what is told of headers and checksums is of the packet in a tunnel
};

/// Something that rules steer frames to.
class FrameTarget {
 public:
  virtual ~FrameTarget() = default;
  /// `tag`: of the rule. Inside an AccessScope, any thread.
  virtual void take_frame(const ArrivedFrame& frame, uint32_t tag) = 0;
};

/// What is to be done with a frame beyond being steered: encryption.
class FlowAction {
 public:
  virtual ~FlowAction() = default;
  /// Changes the frame in place; its new length, 0: it is to be dropped. `room` bytes are there.
  virtual uint32_t apply(uint8_t* frame, uint32_t length, uint32_t room) = 0;
};

/// Which frames a rule is for, and what happens to them.
struct FlowRule {
  enum class Kind : uint8_t { kSniffer, kNormal, kMulticastDefault, kAllDefault };
  Kind kind = Kind::kNormal;
  uint16_t priority = 0;   ///< the lowest is asked first
  bool passes_on = false;  ///< later rules see the frame, too
  bool drops = false;      ///< the frame goes nowhere
  bool leaves = false;     ///< it is for frames that are sent; they are dropped, or go on
  uint32_t tag = 0;        ///< reported with the frame
  std::shared_ptr<FlowCount> count;
  std::shared_ptr<FlowAction> action;
  FrameHeaders value{}, mask{};

  bool matches(const FrameHeaders& frame) const;
};

/// The rules of one process. A frame goes to the first rule that it matches: normal ones by priority, those
/// of one priority by age; then the defaults. Further rules of that priority that say the same get a copy, as
/// do all sniffers. A target gets one copy at most. Thread safe.
class Steering {
 public:
  struct Target {
    FrameTarget* to;
    uint32_t tag;
    std::shared_ptr<FlowAction> action;
    std::shared_ptr<FrameTarget> hold;  ///< keeps it, if it is one that is kept so
  };
  struct Exit {
    bool dropped = false;
    std::shared_ptr<FlowAction> action;
  };

  /// Its number, never 0. `hold`: keeps the target as long as the rule, and while frames are on their way to
  /// it.
  uint32_t add(FrameTarget* to, const FlowRule& rule, std::shared_ptr<FrameTarget> hold = nullptr);
  /// False: there is no such rule.
  bool remove(uint32_t number);
  /// Removes those of a target; returns how many there were.
  uint32_t forget(const FrameTarget* target);
  /// Whom a frame of so many bytes goes to. Counts it.
  std::vector<Target> match(const FrameHeaders& frame, uint32_t length) const;
  /// Whether anything looks at what is sent.
  bool watches_exit() const { return leaving_.load(std::memory_order_relaxed) != 0; }
  /// What happens to a frame that is sent. Counts it.
  Exit match_exit(const FrameHeaders& frame, uint32_t length) const;

 private:
  struct Entry {
    uint32_t number;
    FrameTarget* to;
    FlowRule rule;
    std::shared_ptr<FrameTarget> hold;
  };
  template <class Which>
  uint32_t erase(Which which);

  mutable std::mutex lock_;
  std::vector<Entry> entries_;  ///< in the order in which they are asked
  std::atomic<uint32_t> leaving_{0};
  uint32_t last_number_ = 0;
};

}  // namespace verbatim::engine
