// SPDX-License-Identifier: MIT
#pragma once

// A run of arrivals that one thread delivers in a row. A device may hold completions back until the run ends,
// in order to tell several together.

#include <cstdint>

namespace verbatim::engine {

/// Something that holds completions back.
class Held {
 public:
  /// The run has ended: what is held back must be told.
  virtual void settle() = 0;

 protected:
  ~Held() = default;
};

/// The run of the calling thread.
class Gathering {
 public:
  static void begin();
  static void end();
  /// True: `held` will be settled when the run ends, before anything that it delivers to can be destroyed.
  /// False: there is no run, or too much is held back already.
  static bool hold(Held& held);
};

}  // namespace verbatim::engine
