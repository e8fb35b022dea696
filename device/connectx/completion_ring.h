// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <functional>

#include "base/spinlock.h"
#include "device/connectx/formats.h"
#include "device/hw/hca.h"
#include "engine/work.h"

namespace verbatim::connectx {

/// A completion queue in ConnectX format. Thread safe: many queue pairs push, the program consumes without a
/// lock here.
///
/// An entry belongs to software when its owner bit equals the parity of the lap it was written in. The event
/// is armed by the doorbell record's second word and fires once.
class CompletionRing {
 public:
  /// `overrun_alarm` is set when this or another queue of the device has overrun.
  CompletionRing(const hw::CqSpec& spec, hw::Cq& face, hw::EventSink& sink, std::atomic<bool>& overrun_alarm);

  struct Received {
    uint8_t cqe_opcode;
    bool solicited;
    uint32_t flags_rqpn, user_index, immediate_raw, bytes, qpn;
    uint16_t counter;
  };
  void push_request(uint32_t opcode_qpn, uint32_t user_index, uint16_t counter, uint32_t bytes);
  void push_receive(const Received& received);
  void push_error(uint8_t cqe_opcode, engine::Status status, uint8_t detail, uint32_t opcode_qpn,
                  uint32_t user_index, uint16_t counter);

  void arm();
  /// See hw::Hca::ring_arm.
  void arm_late();
  /// EINVAL: what the program has not yet read does not fit.
  Outcome resize(const hw::QueueMemory& ring);
  bool overrun() const { return overrun_.load(std::memory_order_relaxed); }

 private:
  std::byte* entry(uint32_t index) const;
  template <class T>
  T* claim();
  uint64_t timestamp() const;
  void publish(uint8_t& last_byte, uint8_t opcode, bool solicited);
  void raise(bool solicited);
  bool special(uint32_t index) const;

  hw::QueueMemory ring_;
  uint32_t* doorbell_;
  const bool ignore_overrun_, real_time_;
  hw::Cq& face_;
  hw::EventSink& sink_;
  std::atomic<bool>& overrun_alarm_;
  SpinLock lock_;
  uint32_t produced_ = 0;  ///< running index of the next entry
  enum class Armed : uint8_t { kNo, kAny, kSolicited } armed_ = Armed::kNo;
  uint64_t armed_word_ = UINT64_MAX;  ///< the arm word taken in last; none yet
  std::atomic<bool> overrun_{false};
};

}  // namespace verbatim::connectx
