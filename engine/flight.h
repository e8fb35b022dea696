// SPDX-License-Identifier: MIT
#pragma once

// What a requester has under way on an Ethernet wire, and how much it may have.

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "engine/qp_types.h"
#include "wire/link/segment.h"

namespace verbatim::engine {

/// How many bytes may be under way: halved by each sign of loss or congestion, and restored by time.
class SendWindow {
 public:
  static constexpr uint32_t kBytesMax = 512 * 1024;
  static constexpr uint32_t kBytesMin = 16 * 1024;
  static constexpr uint64_t kRecoveryNs = 5'000'000;  ///< from nothing to all
  static constexpr uint64_t kCalmNs = 50'000;         ///< signs of congestion that come faster count once

  uint32_t bytes() const { return bytes_; }
  /// Something was lost.
  void on_loss(uint64_t now_ns) { halve(now_ns); }
  /// The network, or the peer, says that there is congestion.
  void on_congestion(uint64_t now_ns) {
    if (now_ns >= calm_at_ns_) halve(now_ns);
    calm_at_ns_ = std::max(calm_at_ns_, now_ns + kCalmNs);
  }
  void grow(uint64_t now_ns) {
    if (bytes_ == kBytesMax || now_ns <= since_ns_) return;
    const uint64_t passed_ns = std::min(now_ns - since_ns_, kRecoveryNs);
    const uint64_t gained = passed_ns * kBytesMax / kRecoveryNs;
    if (gained == 0) return;
    bytes_ = static_cast<uint32_t>(std::min<uint64_t>(bytes_ + gained, kBytesMax));
    since_ns_ = now_ns;
  }

 private:
  void halve(uint64_t now_ns) {
    grow(now_ns);
    bytes_ = std::max(bytes_ / 2, kBytesMin);
    since_ns_ = now_ns;
  }

  uint32_t bytes_ = kBytesMax;
  uint64_t since_ns_ = 0;    ///< up to when growth has been counted
  uint64_t calm_at_ns_ = 0;  ///< signs of congestion count again from then on
};

/// Requests that ask for responses and have not got all of theirs, each by the PSN after its last. A
/// responder that is asked again knows a request by the PSNs that it had: those stay.
class Asked {
 public:
  /// How many the responder has to remember.
  uint32_t count() const { return count_; }
  /// The next one is one of them, which was lost or whose responses were.
  bool is_again() const { return again_ > 0; }
  /// Where that ends.
  uint32_t next_end() const { return ends_[count_ - again_]; }
  /// One was sent that goes that far.
  void add(uint32_t end_psn) {
    if (again_ > 0) {
      if (end_psn == next_end()) again_--;
    } else if (count_ < kReadsMax) {
      if (!ends_) ends_ = std::make_unique<uint32_t[]>(kReadsMax);
      ends_[count_++] = end_psn;
    }
  }
  /// Everything before `psn` has come.
  void drop_until(uint32_t psn) {
    uint32_t gone = 0;
    while (gone < count_ && wire::psn_distance(ends_[gone], psn) <= 0) gone++;
    if (gone == 0) return;
    std::copy(ends_.get() + gone, ends_.get() + count_, ends_.get());
    count_ -= gone;
    again_ = std::min(again_, count_);
  }
  /// All that are left are sent again.
  void repeat() { again_ = count_; }
  void clear() { count_ = again_ = 0; }

 private:
  std::unique_ptr<uint32_t[]> ends_;  ///< kReadsMax, once there are some
  uint32_t count_ = 0, again_ = 0;
};

/// Of a connection over a wire, between the oldest packet that the peer may lack and the newest one sent.
struct Flight {
  static constexpr uint32_t kPacketsMax = 512;
  static constexpr uint32_t kPacketsUnasked = 128;  ///< sent before the peer is asked for an acknowledgement
  static constexpr uint32_t kNoPsn = UINT32_MAX;

  uint32_t end_psn = 0;        ///< nothing from there on has ever been sent
  uint32_t bytes = 0;          ///< between the oldest packet that the peer may lack and the cursor
  uint32_t unasked = 0;        ///< packets sent since an acknowledgement was asked for
  uint32_t rung = 0;           ///< doorbells that wait for company
  uint32_t lost_psn = kNoPsn;  ///< missing, and sent again for that reason
  bool progressed = false;     ///< something was acknowledged since the timer was looked at
  uint64_t silent_at_ns = 0;   ///< when an acknowledgement is overdue; 0: none is awaited
  // Before that, the oldest packet that the peer may lack is sent once more, now and then: the answer tells
  // what it has.
  uint64_t probe_at_ns = kNever;
  uint64_t probe_wait_ns = 0;    ///< from the last time to the next
  uint32_t probed_psn = kNoPsn;  ///< what was sent so
  Asked asked;
  SendWindow window;

  /// When to look at the time.
  uint64_t deadline_ns() const { return silent_at_ns == 0 ? kNever : std::min(silent_at_ns, probe_at_ns); }

  /// Nothing is under way, and the next packet is that one. What is known of the network stays.
  void begin(uint32_t psn) {
    end_psn = psn;
    bytes = unasked = rung = 0;
    lost_psn = probed_psn = kNoPsn;
    progressed = false;
    silent_at_ns = 0;
    asked.clear();
  }
};

}  // namespace verbatim::engine
