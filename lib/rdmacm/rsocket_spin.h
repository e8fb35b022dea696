// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "lib/rdmacm/rsocket_defaults.h"

namespace verbatim::rdmacm {

/// Looks again and again for a while before a thread sleeps (polling_time), as long as that has been worth
/// it: where the other end needs this processor to answer, it has not.
class Spin {
 public:
  /// Whether the test came true in time.
  template <class Test>
  bool until(Test test) {
    if (vain_ >= kVainMax && ++left_out_ % kLeaveOut != 0) return false;
    const auto end = std::chrono::steady_clock::now() + socket_defaults().polling;
    while (std::chrono::steady_clock::now() < end)
      if (test()) {
        vain_ = 0;
        return true;
      }
    ++vain_;
    return false;
  }

 private:
  static constexpr uint32_t kVainMax = 4, kLeaveOut = 16;
  uint32_t vain_ = 0, left_out_ = 0;
};

}  // namespace verbatim::rdmacm
