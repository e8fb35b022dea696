// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "base/spinlock.h"

namespace verbatim::engine {

/// Something of a device model that wants to be called at an instant.
class Alarm {
 public:
  virtual ~Alarm() = default;
  /// `Alarms::set` may be called again from here, and from anywhere.
  virtual void ring(uint64_t now_ns) = 0;
};

/// Those that are set. Thread safe.
class Alarms {
 public:
  /// At `at_ns`, and not at an instant that was named before.
  void set(Alarm& alarm, uint64_t at_ns);
  /// Afterwards it is not called any more, nor just being called. Not from `Alarm::ring`.
  void clear(Alarm& alarm);
  /// Calls those that are due. Returns the next instant of the others.
  uint64_t run(uint64_t now_ns);

 private:
  struct Entry {
    Alarm* alarm;
    uint64_t at_ns;
  };
  Alarm* take_due(uint64_t now_ns, uint64_t& next_ns);

  SpinLock running_;  ///< held while one is called; before the next
  SpinLock lock_;
  std::vector<Entry> set_;
};

}  // namespace verbatim::engine
