// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "base/spinlock.h"
#include "wire/link/channel.h"
#include "wire/link/shm/ring.h"
#include "wire/link/shm/shared_file.h"
#include "wire/link/tap/tap.h"

namespace verbatim::wire::shm {

/// Who this process is for its peers.
struct Self {
  uint32_t slot = 0;
  uint64_t generation = 0;
  bool cross_memory = true;                        ///< wanted at all
  std::atomic<uint32_t>* busy_channels = nullptr;  ///< how many channels wait for room
  std::atomic<uint32_t>* requests_sent = nullptr;  ///< counts each request that is sent
  tap::Tap* tap = nullptr;                         ///< for who captures packets

  bool captured() const { return tap && tap->captures(); }
};

/// The way to another process of this host.
class PeerChannel final : public Channel {
 public:
  /// Maps the peer's segments, claims a ring in it and finds out whether its memory can be reached.
  /// Takes over the descriptors. EPROTO: not a peer of this version; EBUSY: the ring still belongs to a dead
  /// predecessor, the peer was asked to clear it.
  static Expected<std::unique_ptr<PeerChannel>> open(const Self& self, PeerHandles handles,
                                                     size_t published_bytes);
  ~PeerChannel() override;

  uint32_t slot() const { return slot_; }
  uint64_t generation() const { return generation_; }
  uint32_t pid() const { return pid_; }

  uint32_t payload_max(bool may_pull) const override;
  SendResult send(const Segment& segment, const Piece* pieces, uint32_t count, bool may_pull,
                  Segment* answer) override;
  void forbid_pull() override { pull_.store(false, std::memory_order_relaxed); }
  bool alive() override;
  bool lossless() const override { return true; }
  void nudge() override;
  const std::byte* published() const override;
  const std::byte* testament() const override {
    return published_.data() ? published_.data() + kPage : nullptr;
  }
  uint32_t enter_access() override;
  void leave_access(uint32_t ticket) override;
  bool write_direct(uint64_t remote, const Piece* pieces, uint32_t count) override;
  bool read_direct(uint64_t remote, const Piece* pieces, uint32_t count) override;

  /// The peer has gone, or broke the format: from now on everything is unreachable.
  void die() { dead_.store(true, std::memory_order_release); }
  /// The process has ended, and all that it sent has been delivered: nothing begins to use this channel any
  /// more.
  void bury() {
    die();
    buried_.store(true, std::memory_order_release);
  }
  bool buried() const { return buried_.load(std::memory_order_acquire); }
  /// Gives back the mappings and descriptors of a buried channel. Nobody is inside one of its functions.
  void release();
  /// The process itself, whatever became of this channel. One system call.
  bool process_lives() const;
  bool dead() const { return dead_.load(std::memory_order_acquire); }
  /// The peer refused by the kernel to have its memory read: say so once and for all.
  void forbid_cross_memory() { cross_.store(false, std::memory_order_relaxed); }
  bool cross_memory() const { return cross_.load(std::memory_order_relaxed); }
  /// See PublishedPrefix; 0 when the peer is gone.
  bool lingers() const { return !dead() && prefix().lingers.load(std::memory_order_relaxed) != 0; }
  uint32_t polled_on() const { return dead() ? 0 : prefix().polled_on.load(std::memory_order_relaxed); }
  /// A send was refused for want of room; true once there is room again (then the mark is taken off).
  bool room_again();
  bool waits_for_room() const { return busy_.load(std::memory_order_relaxed); }
  /// For a forked child.
  void abandon();

 private:
  PeerChannel(const Self& self, const PeerHandles& handles)
      : self_(self),
        slot_(handles.primary_slot),
        generation_(handles.generation),
        pid_(handles.pid),
        wake_(handles.wake) {}
  Outcome claim();
  void probe();
  Inbound& inbound() const { return *reinterpret_cast<Inbound*>(inbound_.data()); }
  const PublishedPrefix& prefix() const {
    return *reinterpret_cast<const PublishedPrefix*>(published_.data());
  }
  std::byte* reserve(uint32_t slots);
  SendResult send_pulled(const Segment& segment, uint8_t form, const Piece* pieces, uint32_t count);
  void record(const Segment& segment, const Piece* pieces, uint32_t count) const;
  void pushed();
  bool cross(bool write, uint64_t remote, const Piece* pieces, uint32_t count);

  const Self self_;
  const uint32_t slot_;
  const uint64_t generation_;
  const uint32_t pid_;
  int wake_;
  SharedFile published_, inbound_;
  SpinLock send_lock_;
  RingWriter writer_;
  /// The process has ended; what it had sent may still lie in its ring here.
  std::atomic<bool> gone_{false};
  std::atomic<bool> dead_{false}, buried_{false}, cross_{false}, pull_{true}, busy_{false};
  uint32_t room_wanted_ = 1;  ///< slots; send_lock_
};

}  // namespace verbatim::wire::shm
