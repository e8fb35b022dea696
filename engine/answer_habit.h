// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim::engine {

/// Whether a program answers what it receives at once, so that the acknowledgement may wait for the answer
/// and leave in the same call. Time is counted in looks for arrivals.
class AnswerHabit {
 public:
  /// An acknowledgement that is owed may wait until the next look.
  bool expects_answer() const { return seen_ >= kWanted; }
  /// One has left alone. `waited`: it was kept for an answer, which did not come.
  void on_alone(uint32_t look, bool waited) {
    if (waited || !noted_) seen_ = 0;
    look_ = look;
    noted_ = false;
  }
  /// The program sends.
  void on_send(uint32_t look) {
    if (noted_ || look != look_) return;
    noted_ = true;
    if (seen_ < kWanted) seen_++;
  }

 private:
  static constexpr uint8_t kWanted = 3;  ///< in a row
  uint32_t look_ = 0;                    ///< when the last one left
  uint8_t seen_ = 0;
  bool noted_ = true;  ///< an answer to what came then
};

}  // namespace verbatim::engine
