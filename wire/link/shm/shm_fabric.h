// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "wire/link/channel.h"
#include "wire/link/shm/loopback_channel.h"
#include "wire/link/shm/neighborhood.h"
#include "wire/link/shm/peer_channel.h"
#include "wire/link/tap/tap.h"

namespace verbatim::wire::shm {

/// All processes of this host that one user runs in one network namespace, this one included.
///
/// Life: create, hand `handles` to the agent, attach with what the agent gave, set the receiver, use.
class ShmFabric final : public Fabric {
 public:
  /// `published_bytes`: of the engine's tables. Errors: ENOMEM, EMFILE and the like.
  static Expected<std::unique_ptr<ShmFabric>> create(size_t published_bytes, const Clock& clock);
  ~ShmFabric() override;

  /// The descriptors that peers get; they stay this object's.
  PeerHandles handles() const;
  int wake_fd() const { return wake_; }
  /// The agent has given this process a slot. Before any other use.
  void attach(Neighborhood& neighborhood, uint32_t slot, uint64_t generation);
  /// False: the kernel does not let this process fence its senders, so that one that began to send while this
  /// one fell asleep may have overlooked the wish to be woken; sleep for bounded times.
  bool wakes_are_certain() const;
  void set_receiver(Receiver& receiver);
  /// Numbers of a further slot belong to this process as well.
  void add_own_slot(uint32_t slot);
  bool is_own_qpn(uint32_t qpn) const { return is_own(qpn >> 14 & (kSlotsMax - 1)); }
  uint32_t slot() const { return self_.slot; }
  /// What is sent passes this by for who captures packets. Before any other use.
  void pass_by(tap::Tap& tap) { self_.tap = &tap; }
  /// Whose the packets of other hosts are that other processes pass on (kPassedOn).
  void on_passed_on(std::function<Channel&(const Gid&)> sender) { passed_on_ = std::move(sender); }
  // poll, peer_gone and sweep deliver arrivals: their callers exclude each other.
  /// The agent says that a process has gone. Its channel dies; its ring here is cleared.
  void peer_gone(uint32_t slot, uint64_t generation, Receiver& receiver);
  /// Buries peers that died without a word from the agent. A few system calls per peer.
  void sweep(Receiver& receiver);
  /// Gives back what the channels of ended processes held. `wait_for_users` returns when every call that may
  /// still be using one has ended. Not from inside such a call.
  void reclaim(const std::function<void()>& wait_for_users);
  /// In a forked child: everything becomes unreachable, nothing that the parent uses is touched any more.
  void after_fork_child();

  Channel* channel(const Gid& dest, uint32_t dest_qpn) override;
  Channel* neighbor(uint32_t dest_qpn) override;
  std::string obstacle(const Gid& dest, uint32_t dest_qpn) override;
  uint32_t multicast(const Gid& group, Channel** out, uint32_t max) override;
  uint32_t poll(Receiver& receiver, uint32_t budget) override;
  bool pending() const override;
  bool worth_polling() override;
  bool shares_processor() override;
  bool want_wake(bool on) override;
  /// The same without making sure: what a peer sends at this moment may wake nobody.
  void want_wake_loosely(bool on);
  /// A program thread begins or ends to stay for an answer: it takes in what arrives, nobody need be woken
  /// meanwhile. After the end wakes are not certain until want_wake() has been called with false and true.
  void linger(bool begins);
  bool lingers() const;
  /// Grows with requests that are sent; some of those sent at the same time may not be counted.
  uint32_t requests_sent() const { return requests_sent_.load(std::memory_order_relaxed); }
  /// A thread of a process that sends to this one does so just now.
  bool peer_lingers() const;
  void wait_for_peers() override;
  std::byte* published() override { return published_.data() + kPage; }
  size_t published_bytes() const override { return published_.bytes() - kPage; }

 private:
  struct Sender {
    uint32_t slot;
    uint64_t generation;
    PeerChannel* channel;
    RingReader reader;
    Sender(uint32_t s, uint64_t g, PeerChannel* c, Slot* slots, RingControl* control)
        : slot(s), generation(g), channel(c), reader(slots, control) {}
  };
  explicit ShmFabric(const Clock& clock) : clock_(clock) {}

  Inbound& inbound() const { return *reinterpret_cast<Inbound*>(inbound_.data()); }
  PublishedPrefix& prefix() const { return *reinterpret_cast<PublishedPrefix*>(published_.data()); }
  PeerChannel* peer(uint32_t slot);
  PeerChannel* introduce(uint32_t slot);
  bool is_own(uint32_t slot) const {
    return own_slots_[slot / 64].load(std::memory_order_relaxed) >> (slot % 64) & 1;
  }

  bool changed() const;
  bool introductions_due() const;
  void refresh_senders();
  void watch_senders();
  uint32_t drain(Sender& sender, Receiver& receiver, uint32_t budget);
  bool deliver(Sender& sender, Receiver& receiver, const EntryHeader& header, const std::byte* memory,
               uint32_t bytes);
  void drop_sender(uint32_t slot);
  void clear_ring(uint32_t slot);
  void bury(uint32_t slot, uint64_t generation, Receiver& receiver);
  void tell_room(Receiver& receiver);
  bool counters_clear(uint32_t side, bool look_for_dead);
  bool owner_lives(uint32_t slot);
  bool may_access(uint32_t slot);

  const Clock& clock_;
  SharedFile published_, inbound_;
  int wake_ = -1;
  uint64_t nonce_ = 0;
  Neighborhood* neighborhood_ = nullptr;
  Self self_;
  std::array<std::atomic<uint64_t>, kSlotsMax / 64> own_slots_{};
  std::unique_ptr<LoopbackChannel> loopback_;
  AccessCounters own_access_{};  ///< of the loopback; no peer can write it

  std::function<Channel&(const Gid&)> passed_on_;

  std::mutex peers_lock_;
  std::array<std::atomic<PeerChannel*>, kSlotsMax>
      peers_{};                                    ///< by primary slot: the present owner's channel
  std::map<uint32_t, uint32_t> primary_of_;        ///< further slots of peers
  std::vector<std::unique_ptr<PeerChannel>> all_;  ///< dead ones too
  std::array<uint64_t, kSlotsMax> retry_at_ns_{};
  std::map<uint32_t, std::string> obstacles_;  ///< by slot: what stood in the way of meeting its owner

  // The receiving side, one thread at a time.
  std::vector<std::unique_ptr<Sender>> senders_;
  size_t turn_ = 0;  ///< whom the next poll begins with: a full budget must not starve the others
  std::vector<std::unique_ptr<Sender>> former_senders_;  ///< kept: `pending` may still look at one
  // What `pending` looks at without a lock: the same senders, rewritten after each change.
  std::array<std::atomic<const Sender*>, kSlotsMax> watched_{};
  std::atomic<uint32_t> watched_count_{0};
  std::atomic<uint32_t> seen_changes_{0};
  std::atomic<uint64_t> introduce_at_ns_{kNever};  ///< when to try again to meet a sender that was not found
  std::atomic<uint32_t> busy_channels_{0};
  std::atomic<uint32_t> requests_sent_{0};
  uint32_t answered_requests_ = 0;       ///< of them, until the last arrivals; with the progress lock held
  std::atomic<uint64_t> rest_until_{0};  ///< in ticks; 0: worth_polling looks at once
  std::atomic<bool> any_buried_{false};
  std::mutex epoch_lock_;
  bool forked_ =
      false;  ///< set while the child has one thread; locks may have been held by others at the fork
};

}  // namespace verbatim::wire::shm
