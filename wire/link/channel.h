// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "wire/link/segment.h"
#include "wire/link/tap/switch.h"

namespace verbatim::wire {

enum class SendResult : uint8_t {
  kAccepted,     ///< on its way, in order with all accepted before it
  kBusy,         ///< no room now; the fabric calls Receiver::on_room when there may be
  kUnreachable,  ///< the other end is dead or was never there; as if it was lost
  kAnswered,     ///< delivered and answered synchronously (loopback): `*answer` is filled in
  kNoAnswer,     ///< delivered synchronously, nothing to answer
  kSourceFault,  ///< a piece of the payload cannot be read
};

/// The way to one other process (or to one's own, or to a host on Ethernet). Owned by its Fabric, stable
/// until the fabric goes; a dead one stays valid and says kUnreachable. All functions are thread safe.
class Channel {
 public:
  virtual ~Channel() = default;

  /// What every channel takes in one segment.
  static constexpr uint32_t kPayloadMin = 4096;

  /// Largest payload of one segment, in bytes, a multiple of 4096. `may_pull`: the sender keeps the payload
  /// unchanged until it is acknowledged, so that the other end may fetch it from there.
  virtual uint32_t payload_max(bool may_pull) const = 0;

  /// Sends one segment. The pieces are read before it returns unless `may_pull`.
  /// `answer`: where a synchronous answer goes.
  virtual SendResult send(const Segment& segment, const Piece* pieces, uint32_t count, bool may_pull,
                          Segment* answer) = 0;

  /// Stops offering pulls on this channel, after kNakCannotPull.
  virtual void forbid_pull() = 0;

  /// The other end has not gone: a process that lives, or a host from which nothing else is known.
  virtual bool alive() = 0;

  /// True when the other end runs whenever it is woken, so that silence means "slow", not "lost".
  virtual bool lossless() const = 0;

  /// An Ethernet wire, with a host at the other end that knows packets and nothing else. What one engine
  /// tells another beside them has no form there: kAcknowledges, kPlaced, a base_psn of its own, syndromes of
  /// the same host. Nobody there is silence. Segments are packets when they arrive, and name hosts by their
  /// GIDs (segment.h): `from` of a packet is this channel if its sender is the host that the channel leads to
  /// and somebody here has asked for the channel before; else it may be any.
  virtual bool is_wire() const { return false; }

  /// Makes a sleeping receiver look at its inbound queue; called when an answer is overdue.
  virtual void nudge() = 0;

  // --- direct access: the requester carries out one-sided operations itself ---

  /// The other process's published tables (see engine/published.h), or nullptr where memory cannot be
  /// reached.
  virtual const std::byte* published() const = 0;

  /// The same, also of a process that has ended or cannot be reached otherwise: what it had received is still
  /// true.
  virtual const std::byte* testament() const = 0;

  /// Brackets a look-up of a published key and the access that follows: while it is open the owner's
  /// Fabric::wait_for_peers does not return. Cheap, may nest per thread, never blocks.
  virtual uint32_t enter_access() = 0;
  virtual void leave_access(uint32_t ticket) = 0;

  /// Moves bytes between `pieces` here and `remote` there. False: not done, or not wholly; nothing is known
  /// of why, the caller sends a request instead and the responder finds out.
  virtual bool write_direct(uint64_t remote, const Piece* pieces, uint32_t count) = 0;
  virtual bool read_direct(uint64_t remote, const Piece* pieces, uint32_t count) = 0;

  /// For who captures packets: the peer has answered with this, and these bytes were moved already.
  virtual void note_answer(const Segment& answer, const Piece* pieces, uint32_t count) {
    (void)answer;
    (void)pieces;
    (void)count;
  }
};

/// What a fabric hands its arrivals to: the engine.
class Receiver {
 public:
  virtual ~Receiver() = default;
  /// Brackets a run of on_segment calls of one thread.
  virtual void enter() = 0;
  virtual void leave() = 0;
  /// One segment has arrived. With `answer` non-null (loopback) the reply goes there and true is returned;
  /// false: none. The segment is a private copy, the payload is checked for its length, nothing else about it
  /// is trusted.
  virtual bool on_segment(Channel& from, const Segment& segment, Payload& payload, Segment* answer) = 0;
  /// A packet for that queue pair has come that is not as it was sent (ICRC). Between enter and leave.
  virtual void on_damaged(uint32_t dest_qpn) { (void)dest_qpn; }
  /// A channel that was busy may have room again.
  virtual void on_room(Channel& channel) = 0;
  /// The process behind the channel is gone.
  virtual void on_gone(Channel& channel) = 0;
};

/// All that this process can reach.
class Fabric {
 public:
  virtual ~Fabric() = default;

  /// The channel towards the owner of `dest_qpn` at `dest`; nullptr: no way there now (ask again later).
  virtual Channel* channel(const Gid& dest, uint32_t dest_qpn) = 0;

  /// The channel towards the owner of `dest_qpn` on this host, for links that have no GIDs; nullptr: none
  /// now.
  virtual Channel* neighbor(uint32_t dest_qpn) = 0;

  /// Packets are captured: segments of all channels have their addresses (kAddressed).
  bool captured() const { return active_.captures(); }

  /// Why `channel` found no way the last time, in words; empty when nothing more is known than that nobody is
  /// there.
  virtual std::string obstacle(const Gid& dest, uint32_t dest_qpn) = 0;

  /// Packets of this host may come from now on, or of any if it is zero.
  virtual void expect(const Gid& host) { (void)host; }

  /// Channels of all processes that have joined multicast group `group`, own one included; at most `max`.
  virtual uint32_t multicast(const Gid& group, Channel** out, uint32_t max) = 0;

  /// Delivers up to `budget` arrived segments; returns how many. Callers exclude each other.
  virtual uint32_t poll(Receiver& receiver, uint32_t budget) = 0;

  /// True when something has arrived that poll would deliver.
  virtual bool pending() const = 0;

  /// For a caller that looks all the time: the same, or a channel waits for room (whoever sleeps is woken for
  /// that). But false for some hundred nanoseconds after arrivals of a one-way stream, because messages cost
  /// less when several are taken together and their sender is not disturbed.
  virtual bool worth_polling() = 0;

  /// For a thread that polls in vain: tells peers on which processor, and whether one of them was last seen
  /// to do so on the same. Two programs that spin on one processor would wait for each other's time slices.
  virtual bool shares_processor() = 0;

  /// `on`: peers wake this process's engine thread when they send something. Returns the earlier setting.
  virtual bool want_wake(bool on) = 0;

  /// Returns when no process, this one included, is inside an access that began before the call. Bounded: a
  /// peer that dies counts as gone.
  virtual void wait_for_peers() = 0;

  /// This process's own published tables, zeroed at start, page aligned, written by this process only.
  virtual std::byte* published() = 0;
  virtual size_t published_bytes() const = 0;

 protected:
  tap::Switch active_;
};

}  // namespace verbatim::wire
