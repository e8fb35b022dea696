// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim {

/// Source of time for everything below the C edge, so that a simulated world can supply its own.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Monotonic nanoseconds. Thread safe.
  virtual uint64_t now_ns() const = 0;
  /// Nanoseconds since 1970, for people. Thread safe.
  virtual uint64_t wall_ns() const = 0;
};

/// CLOCK_MONOTONIC and CLOCK_REALTIME.
class SystemClock final : public Clock {
 public:
  uint64_t now_ns() const override;
  uint64_t wall_ns() const override;
};

/// An instant that never comes.
inline constexpr uint64_t kNever = UINT64_MAX;

}  // namespace verbatim
