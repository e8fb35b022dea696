// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "tools/capture/rings.h"

namespace verbatim::capture {

/// The agent's word to its processes that they are captured. It holds as long as this connection does; when
/// the agent ends, the next one is told.
class Session {
 public:
  /// `rings` must live longer.
  explicit Session(const Rings& rings) : rings_(rings) {}
  ~Session() { end(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Errors: what keeps the agent from answering; EBUSY another capture runs.
  Outcome begin();
  /// Waits for so long, and looks after the agent meanwhile.
  Outcome wait_ms(int milliseconds);
  /// All processes that the agent knows write to the rings by now.
  bool all_write() const;
  void end();

 private:
  const Rings& rings_;
  int socket_ = -1;
};

}  // namespace verbatim::capture
