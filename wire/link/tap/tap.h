// SPDX-License-Identifier: MIT
#pragma once

// What stands between the packets of a process and its sockets when somebody wants that: rules that damage
// them, and a recorder for who captures them.
//
//   out:  engine -> packets with ICRC -> rules -> recorder -> socket
//   in:   socket -> recorder -> rules -> check of the ICRC -> engine
//
// So a capture shows what is on the wire: of what rules do to what is sent, the result; of what rules do to
// what comes in, nothing.

#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/spinlock.h"
#include "wire/format/icrc.h"
#include "wire/link/tap/board.h"
#include "wire/link/tap/delayed.h"
#include "wire/link/tap/recorder.h"

namespace verbatim::wire::tap {

/// What befalls a packet.
struct Fate {
  bool drop = false, corrupt = false;
  uint32_t copies = 1;
  uint64_t hold_ns = 0;     ///< it goes so much later,
  uint32_t overtakers = 0;  ///< or when so many others have gone, if this is not 0
  uint64_t dice = 0;        ///< where it is damaged
};

/// Flips bits of a datagram so that its ICRC is wrong for every receiver.
void damage(std::span<uint8_t> datagram, const roce::Envelope& envelope, uint64_t dice);

/// A datagram that is sent later.
struct HeldDatagram {
  int socket = -1;
  std::vector<uint8_t> address, control, bytes;
  Travel travel;
  uint32_t source_qpn = kAnyQpn;

  static HeldDatagram of(int socket, const msghdr& message);
  void send() const;
};

/// Thread safe.
class Tap {
 public:
  /// `active` says for everybody whether there is anything to ask for here.
  Tap(Switch& active, const Clock& clock) : active_(active), clock_(clock), recorder_(clock) {}

  bool injects_out() const { return active_.injects_out(); }
  bool injects_in() const { return active_.injects_in(); }
  bool captures() const { return active_.captures(); }

  /// The agent's board, which stays mapped for ever; a later one replaces it.
  void follow(Board& board);
  /// Rules of this process alone, from now on.
  void add_own(const std::vector<Rule>& rules);

  Fate fate(const PacketFacts& packet);

  // --- captures ---
  Recorder& recorder() { return recorder_; }
  /// How to find the device of a queue pair of this process: its number in the recorder's list.
  void on_device_of(std::function<uint32_t(uint32_t qpn)> find) { device_of_ = std::move(find); }
  /// Packets of one flow that are sent, each of `packet_bytes` but for the last, which may be shorter.
  /// `time_ns`: when the sending began.
  void record_sent(const Travel& travel, std::span<const uint8_t> datagrams, size_t packet_bytes,
                   uint32_t source_qpn, uint64_t time_ns);
  void record_arrived(const Travel& travel, std::span<const uint8_t> datagram);
  /// A segment that goes from this host to itself another way.
  void record(const Segment& segment, const Piece* pieces, uint32_t count);

  // --- datagrams on their way out that are held back ---
  /// How to make somebody call `release` in time.
  void on_hold(std::function<void()> call) { call_ = std::move(call); }
  void hold(HeldDatagram datagram, const Fate& fate);
  /// So many others have gone: they may have been waited for.
  void note_passed(uint32_t count);
  /// Sends what is due.
  void release();
  bool holds() const { return next_ns_.load(std::memory_order_relaxed) != kNever; }
  /// When `release` has something to do next; kNever.
  uint64_t next_ns() const { return next_ns_.load(std::memory_order_relaxed); }
  /// The sockets are gone.
  void forget_held();

 private:
  struct Source {
    Board* board;
    uint32_t edition;  ///< that `rules` are of
    std::vector<Rule> rules;
  };
  static void refresh(Source& source);
  uint32_t device_of(uint32_t qpn) const { return device_of_ ? device_of_(qpn) : 0; }
  void send_due(uint64_t now_ns);

  Switch& active_;
  const Clock& clock_;
  SpinLock rules_lock_;
  std::vector<Source> sources_;  ///< the agent's, if there is one, and this process's own
  std::unique_ptr<Board> own_;

  Recorder recorder_;
  std::function<uint32_t(uint32_t)> device_of_;

  std::function<void()> call_;
  std::mutex held_lock_;
  Delayed<HeldDatagram> held_;
  std::atomic<uint64_t> next_ns_{kNever};
};

}  // namespace verbatim::wire::tap
