// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim::wire::tap {

/// What else happens to packets than being sent: bits of a word that the agent shares with its processes.
enum Active : uint32_t {
  kInjectsOut = 1,  ///< rules damage some of those that are sent
  kInjectsIn = 2,   ///< or that come in
  kCaptures = 4,    ///< somebody looks at them
};
inline constexpr uint32_t kInjects = kInjectsOut | kInjectsIn;

/// Whether anything is active: what a sender asks for every segment, at the cost of a few relaxed loads.
class Switch {
 public:
  bool any() const { return bits() != 0; }
  bool injects() const { return bits() & kInjects; }
  bool injects_out() const { return bits() & kInjectsOut; }
  bool injects_in() const { return bits() & kInjectsIn; }
  bool captures() const { return bits() & kCaptures; }
  /// From now on it says what this word does, which lives for ever, and what is always so.
  void follow(const std::atomic<uint32_t>& word) { word_.store(&word, std::memory_order_release); }
  void always(uint32_t bits) { always_.store(bits, std::memory_order_relaxed); }

 private:
  static constexpr std::atomic<uint32_t> kOff{0};
  uint32_t bits() const {
    return word_.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) |
           always_.load(std::memory_order_relaxed);
  }
  std::atomic<const std::atomic<uint32_t>*> word_{&kOff};
  std::atomic<uint32_t> always_{0};
};

}  // namespace verbatim::wire::tap
