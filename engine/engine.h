// SPDX-License-Identifier: MIT
#pragma once

// The engine of one process: memory keys, queue pairs, their requesters and responders, timers.
//
// It has no thread and no clock of its own. Work is done by whoever calls: a doorbell runs the requester,
// `progress` drains arrivals and continues what had to wait, `step` is progress plus timers. An engine thread
// (runtime/) calls step when no program thread does.
//
// Lock order: progress < requester of a queue pair < responder of a queue pair < locks of the device
// model.

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "base/spinlock.h"
#include "engine/access_guard.h"
#include "engine/alarms.h"
#include "engine/host.h"
#include "engine/memory_keys.h"
#include "engine/object_board.h"
#include "engine/port.h"
#include "engine/published.h"
#include "engine/qp_types.h"
#include "engine/shared_queues.h"
#include "engine/steering.h"
#include "engine/work.h"
#include "engine/xrc_guests.h"
#include "wire/link/channel.h"

namespace verbatim::engine {

class QueuePair;
class Responder;

/// Affiliated events of a queue pair; called with its locks held: queue, wake and return.
class QueuePairEvents {
 public:
  virtual ~QueuePairEvents() = default;
  virtual void on_event(AsyncEvent event) = 0;
};

/// What a device model gives for a new queue pair. All pointers outlive it.
struct QueuePairSpec {
  QpType type{};
  uint32_t domain = 0;  ///< protection domain number
  SendQueue* send = nullptr;
  ReceiveQueue* receive = nullptr;  ///< nullptr: no receive queue
  bool shared_receive = false;      ///< `receive` is an SRQ: not flushed, last-WQE event instead
  ReceiveSink* sink = nullptr;
  QueuePairEvents* events = nullptr;
  uint32_t send_entries = 0;          ///< most send work requests outstanding at a time
  const Port* port = &kEthernetPort;  ///< outlives the queue pair
  uint64_t access_key = 0;            ///< of a DC target
  uint64_t xrc_domain = 0;            ///< of an XRC receiver
  uint32_t guest_of = 0;  ///< of a receiver that is another process's (xrc_guests.h): who sends to it
  uint32_t errored_streams_max = 1;  ///< of a DC initiator: with so many failed streams it fails as a whole
  bool deaf_to_itself = false;       ///< multicast that it sends does not come back to it
  FrameWishes frame_wishes;          ///< of a receiver of frames
  bool sends_by_itself = false;      ///< `send` is filled by the device, in answer to what comes
};

class Engine final : public wire::Receiver {
 public:
  Engine(wire::Fabric& fabric, Host& host, const Clock& clock);
  ~Engine() override;

  KeyTable& keys() { return keys_; }
  Host& host() { return host_; }
  ObjectBoard& object_board() { return object_board_; }
  const Clock& clock() const { return clock_; }
  wire::Fabric& fabric() { return fabric_; }
  Published& published() { return published_; }

  Expected<QueuePair*> create_queue_pair(const QueuePairSpec& spec);
  /// Afterwards nothing of the specification is called any more.
  void destroy_queue_pair(QueuePair* qp);
  /// A queue pair number without a queue pair. ENOMEM: all are taken.
  Expected<uint32_t> reserve_number();
  void release_number(uint32_t number);

  /// A shared receive queue that XRC senders name by the number that it gets. ENOMEM: all are taken.
  Expected<uint32_t> add_shared_queue(const SharedQueue& queue);
  /// Afterwards nothing of it is called any more.
  void remove_shared_queue(uint32_t number);
  const SharedQueues& shared_queues() const { return shared_queues_; }
  /// The way to the other process of this host that has the number; nullptr: it is this one's, or nobody's.
  wire::Channel* elsewhere(uint32_t number) { return entry_of(number) ? nullptr : fabric_.neighbor(number); }

  Outcome attach_multicast(QueuePair* qp, const Gid& group);
  Outcome detach_multicast(QueuePair* qp, const Gid& group);

  /// Steers frames to a raw packet queue pair; the rule's number. Rules go with their queue pair.
  Expected<uint32_t> add_flow(QueuePair* qp, const FlowRule& rule);
  /// The same to something else, which lives as long as the rule.
  Expected<uint32_t> add_flow(std::shared_ptr<FrameTarget> to, const FlowRule& rule);
  /// EINVAL: there is no such rule.
  Outcome remove_flow(uint32_t number);

  /// Removes the rules that steer to a target.
  void forget_flows(const FrameTarget* target);
  /// A frame that comes from the network outside: to all processes of this host that have rules. Any thread.
  void take_outside_frame(const uint8_t* frame, uint32_t bytes);

  /// Drains arrivals and runs queue pairs that waited for room. Returns work done; cheap when there is none.
  uint32_t progress();
  /// progress and due timers at `now_ns`; returns when to call again (kNever: not before something arrives).
  uint64_t step(uint64_t now_ns);
  /// The timers alone; returns the same. Not while another thread makes progress: then kNever, and call
  /// again.
  uint64_t tick(uint64_t now_ns);

  /// Afterwards `alarm` is called at that instant, or soon after.
  void set_alarm(Alarm& alarm, uint64_t at_ns);
  /// See Alarms::clear.
  void clear_alarm(Alarm& alarm) { alarms_.clear(alarm); }

  /// Held while queue pairs are run; whoever delivers arrivals otherwise than by progress holds it too.
  SpinLock& progress_lock() { return progress_lock_; }

  /// Counts looks of program threads for completions: the engine thread stays out of the way while this
  /// moves.
  uint32_t program_polls() const { return program_polls_.load(std::memory_order_relaxed); }
  std::atomic<uint32_t>& program_poll_count() { return program_polls_; }
  void note_program_poll() { program_polls_.store(program_polls() + 1, std::memory_order_relaxed); }

  /// Program threads send just now, on a wire, and look for arrivals afterwards.
  bool program_sends() const { return program_sends_.load(std::memory_order_relaxed) != 0; }
  /// One begins to, or has ended.
  void note_program_sends(bool begins) {
    program_sends_.fetch_add(begins ? 1 : UINT32_MAX, std::memory_order_relaxed);
  }

  /// Counts receives that have completed.
  uint32_t receives() const { return receives_.load(std::memory_order_relaxed); }
  void note_receive() { receives_.store(receives() + 1, std::memory_order_relaxed); }

  /// Records a reason in the published area. Thread safe; `text` is cut at 223 bytes.
  void explain(uint32_t qpn, int status, uint64_t work, const char* text);
  /// Reasons also go to standard error from now on.
  void explain_aloud(bool on) { explain_aloud_ = on; }

  /// The port of a device of this process goes down, or comes up.
  void show_port(uint32_t device, bool down);

  // wire::Receiver
  void enter() override;
  void leave() override;
  bool on_segment(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload,
                  wire::Segment* answer) override;
  void on_damaged(uint32_t dest_qpn) override;
  void on_room(wire::Channel& channel) override;
  void on_gone(wire::Channel& channel) override;

  // --- for QueuePair ---
  /// Takes it off every list. With the progress lock held.
  void forget_held(QueuePair& qp);
  /// The queue pair of that number, nullptr: none of this process. Inside an AccessScope.
  QueuePair* find(uint32_t qpn);
  /// Puts the queue pair on the list that progress runs; wakes the engine thread unless a program thread
  /// polls.
  void schedule(QueuePair& qp);
  /// The same without waking anybody: something else is going to make somebody look soon.
  void schedule_quietly(QueuePair& qp);
  /// Counts looks for arrivals.
  uint32_t looks() const { return looks_.load(std::memory_order_relaxed); }
  /// The queue pair wants its timer called at `deadline_ns`, or at the next coarse tick when that is 0.
  /// `listed`: it is on the timer list already.
  void set_timer(QueuePair& qp, uint64_t deadline_ns, bool listed);
  /// Receive requests posted to it from now on are flushed.
  void note_errored(QueuePair& qp);
  enum class Owed : uint8_t {
    kLater,   ///< when some have gathered, or nothing else arrives for a while
    kAnswer,  ///< as the next, and where the engine thread looks, in a while: the program looks at its memory
    kNextLook,  ///< when the next look finds nothing, unless the program's answer takes it along before
    kSoon,      ///< when all that has arrived is dealt with
    kAtOnce,    ///< a response or refusal
  };
  /// Owes an acknowledgement or response.
  void owe_ack(Responder& responder, Owed when);
  /// Returns when what was owed, and is about to leave, has left. Without the locks of responders.
  void let_owed_leave() { std::lock_guard<SpinLock> hold(leaving_lock_); }
  /// A channel refused the queue pair's segment: run it again when there is room.
  /// `epoch`: room_epoch() before the refused attempt, so that room made since is not missed.
  void wait_for_room(QueuePair& qp, uint32_t epoch);
  /// Hands a frame that a queue pair of this port sends to everybody. kBusy: it is to come again when there
  /// is room.
  wire::SendResult spread_frame(const Port& port, uint32_t sender, const wire::Piece* pieces, uint32_t count,
                                uint32_t bytes);
  const Steering& steering() const { return steering_; }
  uint32_t room_epoch() const { return room_epoch_.load(std::memory_order_acquire); }
  /// The number of a DC initiator's next connection; never 0.
  uint32_t next_connection();
  /// Tells the sender of a request that nobody is there whom it is for, if its transport wants answers. True:
  /// it does.
  static bool answer_nobody(wire::Channel& from, const wire::Segment& segment, wire::Segment* answer);

 private:
  struct Attachment {
    Gid group;
    QueuePair* qp;
  };
  Expected<uint32_t> take_number();
  PublishedQp& published_entry(uint32_t qpn);
  std::atomic<QueuePair*>* entry_of(uint32_t qpn);
  /// Of the numbers of this process's queue pairs.
  uint32_t first_number() const;
  uint32_t run_ready();
  uint32_t send_owed();
  void flush_errored();
  uint32_t progress_locked(bool patient);
  bool owed_is_due(bool arrived, bool patient);
  void rest();
  uint64_t tick_locked(uint64_t now_ns);
  uint64_t run_timers(uint64_t now_ns);
  bool list_ready(QueuePair& qp);
  void forget(QueuePair& qp);
  bool deliver_multicast(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload);
  bool deliver_frame(const wire::Segment& segment, wire::Payload& payload);
  Expected<uint32_t> join_and_add(FrameTarget* to, const FlowRule& rule, std::shared_ptr<FrameTarget> hold);

  wire::Fabric& fabric_;
  Host& host_;
  const Clock& clock_;
  Published& published_;
  KeyTable keys_;
  ObjectBoard object_board_{published_};

  // Queue pairs by block and index. Readers are inside an AccessScope; destroy waits for
  // them.
  std::array<std::unique_ptr<std::atomic<QueuePair*>[]>, kQpBlocksMax> table_;
  std::array<std::atomic<uint32_t>, kQpBlocksMax> block_slots_{};
  std::mutex table_lock_;
  std::vector<uint32_t> free_numbers_;
  uint32_t blocks_ = 0;
  uint32_t next_index_ = 0;

  SpinLock progress_lock_;  ///< held while queue pairs are run from the lists below
  SpinLock list_lock_;      ///< guards the lists
  std::vector<QueuePair*> ready_;
  std::vector<QueuePair*> roomless_;
  std::vector<QueuePair*> timed_;
  Alarms alarms_;
  std::vector<Responder*> owers_;
  std::vector<QueuePair*> targets_;  ///< of DC
  // Of the acknowledgements owed since they were last sent; progress_lock_.
  uint32_t owed_ = 0;        ///< how many messages
  uint32_t owed_looks_ = 0;  ///< empty looks since the last of them
  Owed owed_when_ = Owed::kLater;
  uint64_t answer_until_ns_ =
      0;                   ///< how long the engine thread waits for an answer; 0: from its next look on
  SpinLock leaving_lock_;  ///< held while they are sent; before the locks of responders
  std::vector<QueuePair*> errored_;
  std::vector<QueuePair*> running_;  ///< the list being run; progress_lock_
  std::vector<Responder*> answering_;
  std::atomic<bool> any_ready_{false}, any_owers_{false}, any_errored_{false};
  std::mutex xrc_lock_;  ///< of the next; before the locks of responders
  std::vector<QueuePair*> xrc_receivers_;
  SharedQueues shared_queues_;
  XrcGuests xrc_guests_{*this};
  std::atomic<bool> any_quiet_{false};         ///< some are ready that nobody was woken for
  std::atomic<uint64_t> deadline_ns_{kNever};  ///< earliest exact timer or alarm
  std::atomic<uint32_t> room_epoch_{0};
  static constexpr uint32_t kConnectionClockShift = 16;
  std::atomic<uint32_t> connections_;  ///< counts from the hour on: those of a later process are later
  uint64_t last_tick_ns_ = 0;
  bool explain_aloud_ = false;
  std::mutex groups_lock_;
  std::vector<Attachment> attachments_;
  Steering steering_;
  std::atomic<uint32_t> program_polls_{0}, program_sends_{0}, vain_polls_{0}, receives_{0}, looks_{0};
};

}  // namespace verbatim::engine
