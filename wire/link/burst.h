// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim::wire {

/// What a thread's link holds back during a burst.
class HeldBack {
 public:
  /// The burst has ended: all of it is to go now.
  virtual void let_go() = 0;

 protected:
  ~HeldBack() = default;
};

/// While one lives, a link may hold back what this thread sends, so that more goes in one call. They nest:
/// the outermost one lets go when it ends. Whoever needs what he sends to be in order with what other threads
/// send ends it before he lets them.
class Burst {
 public:
  Burst();
  ~Burst();
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

  /// True: `held` is let go when this thread's burst ends; false: there is none.
  static bool hold(HeldBack& held);

  struct State {
    uint32_t depth;
    HeldBack* held;
  };

 private:
  State& state_;
};

}  // namespace verbatim::wire
