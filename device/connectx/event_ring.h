// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::connectx {

/// An event queue in ConnectX format: a ring of entries of 64 bytes in memory of the host side, which
/// consumes them and tells how far it has come by a doorbell. Not thread safe.
///
/// An entry belongs to software when its owner bit equals the parity of the lap it was written in. Armed, it
/// raises its interrupt once as soon as something is unread. A queue that has lost an event takes no more.
class EventRing {
 public:
  static constexpr uint32_t kEntryBytes = 64;
  using Entry = std::array<uint8_t, kEntryBytes>;

  /// `entries`: a power of two.
  EventRing(std::byte* base, uint32_t entries, bool ignore_overrun)
      : base_(base), entries_(entries), ignore_overrun_(ignore_overrun) {}

  /// True: the interrupt is due.
  bool push(const Entry& entry);
  /// The doorbell: entries before that index are consumed; those that lie elsewhere than between what was
  /// consumed and what was written say nothing. True: the interrupt is due.
  bool consume(uint32_t index, bool arm);
  /// Arms what may have been armed by a doorbell that was not seen.
  bool arm();

  bool failed() const { return failed_; }
  bool armed() const { return armed_; }
  uint32_t consumed() const { return consumed_; }
  uint32_t produced() const { return produced_; }

 private:
  static constexpr uint32_t kIndexMask = 0xffffff;
  uint32_t unread() const { return (produced_ - consumed_) & kIndexMask; }

  std::byte* base_;
  const uint32_t entries_;
  const bool ignore_overrun_;
  uint32_t produced_ = 0, consumed_ = 0;  ///< running, 24 bits of them count
  bool armed_ = false, failed_ = false;
};

}  // namespace verbatim::connectx
