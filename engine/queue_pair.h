// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>

#include "engine/dc_target.h"
#include "engine/engine.h"
#include "engine/requester.h"
#include "engine/responder.h"

namespace verbatim::engine {

/// One queue pair: its state machine around a requester and a responder. Made by Engine::create_queue_pair.
/// Thread safe, except that it must not be used while it is destroyed.
///
///  RESET -> INIT -> RTR -> RTS <-> SQD      any -> ERR (flush), any -> RESET (drop)
///                          RTS  -> SQE -> RTS   (send errors of UC and UD)
///
/// A DC initiator has no SQD; a DC target stays in RTR until it is destroyed.
class QueuePair final : public FrameTarget {
 public:
  QueuePair(Engine& engine, const QueuePairSpec& spec, uint32_t number, PublishedQp& published,
            PublishedTraffic& traffic);

  uint32_t number() const { return number_; }
  QpType type() const { return spec_.type; }
  QpState state() const { return state_.load(std::memory_order_acquire); }
  const QueuePairSpec& spec() const { return spec_; }

  /// Checks the transition and its attributes (IBA 10.3, ibv_modify_qp(3)) and makes it. EINVAL with the
  /// reason. To RESET: outstanding work is dropped without completions, SendQueue indices start at 0 again;
  /// the device model resets its own queue indices after this returns and before the next doorbell.
  Outcome modify(const QpAttributes& attributes, uint32_t mask);
  QpAttributes query();
  /// In SQD: the index of the send queue's entry at which it will go on. EINVAL: not in SQD.
  Expected<uint32_t> resting_send_position();

  /// The send doorbell was rung: runs the requester on the calling thread, a bounded amount of work.
  void ring();

  /// The device model lost faith in this queue pair (its CQ overran, its queue memory is nonsense): error
  /// state and event. May be called with any lock held except the engine's own lists.
  void fail(AsyncEvent event, const char* why);
  /// Its port has another LID, behind which peers find it, or other P_Keys.
  void take_port();
  /// That of its entry in the port's table; 0: none.
  uint16_t pkey() const { return published_.pkey.load(std::memory_order_relaxed); }

  /// Lets work of a failed stream of a DC initiator go again. EINVAL: it has not failed, or there are no
  /// streams.
  Outcome reset_stream(uint16_t stream);
  /// Of a DC target: how often a wrong access key came.
  uint32_t key_violations() const { return key_violations_.load(std::memory_order_relaxed); }
  /// Raises kTargetKeyViolation at the next one.
  void arm_key_violation() { key_violation_armed_ = true; }

  /// Whether a message whose bytes a memory key finds wrong stops the send queue, in SQD, before the next
  /// one.
  void drain_on_key_errors(bool on) { drains_on_key_errors_.store(on, std::memory_order_relaxed); }

  /// The sink hears of the peer's reads and writes (kRemoteRead, kRemoteWrite) from the next transition on,
  /// and peers ask for them instead of reaching into memory.
  void tell_of_remote(uint32_t rights) { told_of_.fetch_or(rights, std::memory_order_relaxed); }

  // --- for the requester, responder and engine ---
  bool is_told_of(uint32_t rights) const { return (told_of_.load(std::memory_order_relaxed) & rights) != 0; }
  Requester& requester() { return requester_; }
  Responder& responder() { return responder_; }
  /// Of a DC target; nullptr: of others.
  DcTarget* target() { return target_.get(); }
  bool on_request(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload,
                  wire::Segment* answer) {
    return target_ ? target_->on_request(from, segment, payload, answer)
                   : responder_.on_request(from, segment, payload, answer);
  }
  void take_frame(const ArrivedFrame& frame, uint32_t tag) override;
  /// Sends owed responses and acknowledgements; false when a channel had no room.
  bool send_owed() { return target_ ? target_->send_owed() : responder_.send_owed(); }
  void note_key_violation();
  /// Of a guest (xrc_guests.h): as the receiver that it stands for.
  void begin_as_guest(const QpAttributes& attributes);
  /// Before it is destroyed: says what peers wait for.
  void part();
  /// Attributes change only with both locks held; either lock suffices to read them.
  const QpAttributes& attributes() const { return attributes_; }
  PublishedQp& published() { return published_; }
  PublishedTraffic& traffic() { return traffic_; }
  /// Whether what has come is of another partition: then it is lost at the port, which counts it.
  bool drops_foreign(const wire::Segment& segment) {
    if (same_partition(segment.pkey, pkey())) [[likely]]
      return false;
    count(PortCount::kOtherPartition);
    return true;
  }
  /// Counts what happens at its port.
  void count(PortCount what);
  /// Headers that every packet of the connection has. With either lock held.
  uint32_t frame_bytes() const { return frame_bytes_; }
  wire::Transport transport() const { return transport_; }
  /// The addresses of a connection's packets, on an Ethernet wire. With either lock held.
  void address(wire::Segment& segment) const;
  /// Enters ERR (or SQE) and arranges for both queues to be flushed; each side's flush happens under its own
  /// lock.
  void enter_error(QpState target = QpState::kError);
  // Path migration (migration.cpp).
  bool has_alternate() const { return attributes_.path_mig_state != kMigrated; }
  /// What the peer's segments say of its path. With either lock held; has_alternate().
  void note_peer_path(const wire::Segment& segment);
  /// The path fails. True: the other one will be taken. With the requester's lock.
  bool leave_path();
  /// Continues whatever waits: called from the engine's ready list.
  void run_ready();
  /// SQD was asked for and the send queue has come to rest.
  void note_drained();
  /// Goes to SQD without having been asked; the event comes in any case. Called with the requester's lock.
  void drain_by_itself();
  bool drains_on_key_errors() const { return drains_on_key_errors_.load(std::memory_order_relaxed); }

  std::atomic<bool> scheduled{false};
  bool waits_for_room = false;  ///< guarded by the engine's list lock

 private:
  Outcome check(const QpAttributes& attributes, uint32_t mask, QpState& from, QpState& to);
  void apply(const QpAttributes& a, uint32_t mask);
  void publish(QpState to);
  void show_port();
  void aim();
  void expect_peer();
  void let_peer_finish();
  std::string check_migration(const QpAttributes& attributes, uint32_t mask) const;
  bool apply_migration(uint8_t wanted);
  void take_other_path();
  void settle_migration();

  Engine& engine_;
  const QueuePairSpec spec_;
  const uint32_t number_;
  const wire::Transport transport_;
  PublishedQp& published_;
  PublishedTraffic& traffic_;
  std::atomic<QpState> state_{QpState::kReset};
  QpAttributes attributes_;
  std::atomic<uint16_t> pkey_index_{0};  ///< of them; read when the table changes
  GidEntry source_;                      ///< whose index the attributes name
  uint32_t frame_bytes_;
  std::mutex modify_lock_;
  std::atomic<bool> drains_on_key_errors_{false};
  std::atomic<uint32_t> told_of_{0};
  enum Wish : uint8_t { kNoWish, kArm, kMigrate, kRefusePeer };
  std::atomic<uint8_t> migration_wish_{kNoWish};  ///< for when both locks can be had
  bool peer_refused_ = false;                     ///< and was told, since the path was armed last
  bool drained_by_itself_ = false;                ///< and has not told yet; guarded by the requester's lock
  Requester requester_;
  Responder responder_;
  const std::unique_ptr<DcTarget> target_;
  std::atomic<uint32_t> key_violations_{0};
  std::atomic<bool> key_violation_armed_{false};
};

}  // namespace verbatim::engine
