// SPDX-License-Identifier: MIT
#pragma once

// What happened in a simulated world, for when a run has failed, and as one number to compare runs by.

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "wire/format/packet.h"

namespace verbatim::simulation {

/// Time that stands still until the world moves it.
class VirtualClock final : public Clock {
 public:
  uint64_t now_ns() const override { return now_ns_; }
  uint64_t wall_ns() const override { return now_ns_; }
  void set(uint64_t now_ns) { now_ns_ = now_ns; }

 private:
  uint64_t now_ns_ = 1'000'000'000;
};

/// What became of a packet.
enum class Fate : uint8_t { kSent, kDropped, kDoubled, kDamaged, kDelayed, kArrived, kWrongIcrc, kForged };

class Trace {
 public:
  explicit Trace(const Clock& clock) : clock_(clock) {}

  void packet(Fate fate, uint32_t from, uint32_t to, const roce::Headers& headers, size_t payload_bytes);
  /// Anything else: said by host `host` of queue pair `qpn`.
  void event(uint32_t host, uint32_t qpn, const char* what, uint64_t value, uint64_t other = 0);

  /// The same for two runs that did the same.
  uint64_t digest() const { return digest_; }
  /// The newest lines, oldest of them first.
  std::string text(size_t lines_max) const;

 private:
  struct Record {
    uint64_t time_ns;
    const char* what;  ///< nullptr: a packet
    uint32_t from, to, psn, qpn, bytes;
    uint64_t value, other;
    Fate fate;
    uint8_t opcode, syndrome;
    bool ack_request;
  };
  void note(const Record& record);
  static std::string line(const Record& record);

  const Clock& clock_;
  std::vector<Record> records_;
  uint64_t digest_ = 0x9e3779b97f4a7c15;
};

}  // namespace verbatim::simulation
