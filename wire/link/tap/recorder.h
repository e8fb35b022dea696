// SPDX-License-Identifier: MIT
#pragma once

// A process's side of a capture: writes frames into its ring. What went through memory is written as the
// packets of RoCEv2 that it would have been on an Ethernet wire.

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "base/spinlock.h"
#include "wire/format/icrc.h"
#include "wire/link/segment.h"
#include "wire/link/tap/capture_file.h"
#include "wire/link/tap/rule.h"

namespace verbatim::wire::tap {

/// How a datagram travels, beside its envelope.
struct Travel {
  roce::Envelope envelope;
  uint8_t traffic_class = 0, hop_limit = 0;  ///< 0: as hosts choose
  uint32_t flow_label = 0;
};

/// Thread safe.
class Recorder {
 public:
  explicit Recorder(const Clock& clock) : clock_(clock) {}

  /// The process has this slot.
  void set_slot(uint32_t slot) { slot_ = slot; }
  /// Another device of the process; one more than kNamesMax is taken for the last.
  void name_device(uint32_t number, const std::string& name);
  /// Begins to write to a capture; takes the file over. EPROTO: it is none.
  Outcome open(int file);
  /// Of the capture that is written to; 0: none.
  uint64_t number() const { return number_.load(std::memory_order_acquire); }
  void close();

  /// A datagram, BTH first and ICRC last, and the queue pair that has sent it, if that is known.
  void record(const Travel& travel, std::span<const uint8_t> datagram, Direction direction,
              uint32_t source_qpn, uint32_t device, uint64_t time_ns);
  /// A segment that goes another way than as packets, from this host to itself.
  void record(const Segment& segment, const Piece* pieces, uint32_t count, uint32_t device);
  /// A frame as it is.
  void record_frame(std::span<const uint8_t> frame, Direction direction, uint32_t device, uint64_t time_ns);

  uint64_t now_ns() const { return clock_.wall_ns(); }

 private:
  struct Mapping;
  void write(std::span<const uint8_t> frame, size_t frame_bytes, Direction direction, uint32_t device,
             uint64_t time_ns);
  bool wants(uint32_t source_qpn, uint32_t dest_qpn) const;

  const Clock& clock_;
  uint32_t slot_ = 0;
  std::atomic<uint64_t> number_{0};
  std::atomic<uint32_t> qpn_{kAnyQpn};
  SpinLock lock_;
  std::shared_ptr<Mapping> mapping_;
  std::array<std::string, kNamesMax> names_;
};

}  // namespace verbatim::wire::tap
