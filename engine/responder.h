// SPDX-License-Identifier: MIT
#pragma once

// The responder: executes arriving requests, for every wire.
//
// Works on message segments: the first one takes a receive work request or checks the remote key, each one is
// placed, the last one completes. A segment that is not the expected one is dropped (duplicates are
// acknowledged again). Answers leave in request order at the end of a drain: read and atomic responses from a
// queue, then one cumulative acknowledgement or the refusal.
//
// From an Ethernet wire (responder_wire.cpp) segments are packets that anybody may have sent, and which may
// have come before: reads that are asked for again are read again, atomics are answered as the first time.

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/fifo.h"
#include "base/spinlock.h"
#include "engine/answer_habit.h"
#include "engine/qp_types.h"
#include "engine/shared_queues.h"
#include "engine/work.h"
#include "wire/link/channel.h"

namespace verbatim::engine {

class Elements;
class Engine;
class QueuePair;
class ShapedFrame;
struct Window;

class Responder {
 public:
  /// `dynamic`: one of those of a DC target, for one initiator.
  Responder(Engine& engine, QueuePair& qp, bool dynamic = false);

  SpinLock& lock() { return lock_; }
  QueuePair& queue_pair() { return qp_; }

  /// One request segment. With `answer` (loopback): the reply goes there, true when there is one. Takes the
  /// lock.
  bool on_request(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload,
                  wire::Segment* answer);
  /// Takes over the acknowledgement that is owed, if it is a plain one with nothing to be sent before it: the
  /// caller puts `psn` into a request of the same queue pair. Takes the lock.
  bool take_acknowledgement(uint32_t& psn, uint32_t& msn);
  /// It could not be sent after all. Takes the lock.
  void give_back_acknowledgement();
  /// A hint, without the lock.
  bool may_owe() const { return may_owe_.load(std::memory_order_relaxed); }
  /// Sends owed responses and acknowledgements; false when the channel had no room. `listed`: the engine has
  /// just taken this responder off its list of owers. Takes the lock.
  bool send_owed(bool listed = false);
  /// After the burst in which the engine had `send_owed` done for its list: what was owed has left. Takes the
  /// lock.
  void note_left();
  /// The same on a wire, when the program sends something: what is owed goes before that, or has gone. Takes
  /// the lock.
  void answer_along();
  /// The program sends something. Takes the lock.
  void note_send();
  /// A hint, without the lock: an acknowledgement has left alone since then.
  bool left_alone() const { return left_alone_.load(std::memory_order_relaxed); }
  /// An Ethernet frame that a rule steers here. Takes the lock.
  void take_frame(const ShapedFrame& frame);
  /// Completes receive work requests posted to a queue pair in the error state. Takes the lock.
  void flush_posted();

  /// Of a DC target: nothing is under way for its initiator, and nothing owed to it. Takes the lock.
  bool is_idle();
  /// Of a DC target: the initiator has another connection from now on, 0: none. A message that had begun ends
  /// with an error. Takes the lock.
  void reconnect(uint32_t initiator, uint32_t connection, uint32_t expected_psn);
  uint32_t connection() const { return connection_; }
  /// Of an XRC receiver: the shared receive queue of that number goes. Takes the lock.
  void leave_shared_queue(uint32_t number);
  /// Of an XRC receiver: an answer to what was passed on to another process. Takes the lock.
  void on_relayed(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload);
  /// The process behind the channel is gone. Takes the lock.
  void relay_gone(wire::Channel& gone);

  // With the lock held:
  /// Of an XRC receiver: nothing more of what has begun comes to the other process.
  void end_relay();
  /// Whom the attributes name.
  void aim(uint32_t peer_qpn);
  void connect(uint32_t expected_psn);
  void reset();
  void flush();
  bool owing = false;  ///< on the engine's list of acknowledgement owers, even if others have sent all

 private:
  struct Response {
    wire::Operation operation;
    uint32_t psn, packets, rkey, length, sent;
    uint64_t address, original;
    uint32_t msn;
    uint32_t domain;     ///< whose memory is read
    bool again = false;  ///< was answered before
    // What another process has answered: the bytes, and which part of all that they are (kFirst, kLast).
    bool relayed = false;
    uint16_t flags = 0;
    std::unique_ptr<std::byte[]> bytes = nullptr;
    bool told = false;  ///< its end is told to the sink
  };
  /// Of an XRC receiver, for a shared receive queue of another process.
  struct Relay {
    wire::Channel* channel = nullptr;  ///< nullptr: requests are carried out here
    uint32_t answered_psn = 0;         ///< what is before it has been answered
    bool wanted = false;               ///< something was dropped that is to come again when all is answered
  };
  /// What was answered to an atomic, for when it is asked for again.
  struct Answered {
    uint32_t psn;
    uint64_t original;
  };
  struct Progress {
    bool active = false;
    bool is_write = false;
    bool has_work = false;
    uint32_t placed = 0, total = 0, rkey = 0;
    uint64_t address = 0;
  };
  /// To an initiator on another host.
  struct WayBack {
    Gid here, there;
    uint8_t traffic_class = 0, hop_limit = 0;
  };
  enum class Verdict : uint8_t { kDone, kDropped, kRefused };

  Verdict out_of_step(int32_t ahead, const wire::Segment& segment);
  void owe(const wire::Segment& segment);

  // Packets of an Ethernet wire.
  bool on_packet(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload);
  bool find_way_back(wire::Channel& from);
  void note_way_back(wire::Channel& from, const wire::Segment& segment);
  void address_back(wire::Segment& reply) const;
  void take_packet(const wire::Segment& segment, wire::Payload& payload);
  const char* wrong_shape(const wire::Segment& segment) const;
  Verdict out_of_step_on_wire(int32_t ahead, const wire::Segment& segment);
  void repeat_read(const wire::Segment& segment, int32_t ahead);
  void repeat_atomic(const wire::Segment& segment);
  void repeat_placement(const wire::Segment& segment);
  void remember_atomic(uint32_t psn, uint64_t original);
  void tell_of_congestion();
  bool answer_datagram(const wire::Segment& segment, wire::Payload& payload);
  Verdict accept(const wire::Segment& segment, wire::Payload& payload);
  Verdict begin(const wire::Segment& segment, wire::Payload& payload);
  Verdict place_send(const wire::Segment& segment, wire::Payload& payload);
  Verdict place_write(const wire::Segment& segment, wire::Payload& payload);
  Verdict finish(const wire::Segment& segment);
  Verdict read_request(const wire::Segment& segment);
  Verdict atomic(const wire::Segment& segment);
  Verdict answer(const wire::Segment& segment, wire::Payload& payload);
  const char* no_room_for_response() const;
  bool settle_responses();
  Verdict atomic_write(const wire::Segment& segment, wire::Payload& payload);
  Verdict flush_memory(const wire::Segment& segment);
  Verdict enter_shared_queue(const wire::Segment& segment);
  const char* find_shared_queue(uint32_t number, SharedQueue& queue) const;
  bool has_unanswered() const { return relay_.channel && relay_.answered_psn != expected_psn_; }
  /// The newest PSN that can be acknowledged.
  uint32_t last_taken() const {
    return wire::psn_add(relay_.channel ? relay_.answered_psn : expected_psn_, wire::kPsnMask);
  }
  Verdict relay(const wire::Segment& segment, wire::Payload& payload);
  Verdict pass_on(const wire::Segment& segment, wire::Payload& payload, uint32_t& done);
  void pass_on_again(const wire::Segment& segment);
  Verdict postpone();
  Verdict refuse_in_turn(uint8_t syndrome, const char* why);
  Verdict answer_later(uint8_t syndrome);
  void note_answered(uint32_t psn);
  void keep_response(const wire::Segment& segment, wire::Payload& payload);
  void take_relayed_refusal(const wire::Segment& segment);
  void break_relay(const char* why);
  Verdict take_work(bool for_write);
  bool looks_at_messages() const {
    return landing_.receive && !work_held_ && landing_.receive->looks_at_messages();
  }
  Verdict take_work_for(const wire::Segment& segment, wire::Payload& payload);
  Verdict settle_take(ReceiveQueue::Take taken, bool for_write, const char* why);
  Verdict copy_refused(wire::CopyResult result);
  Verdict refuse(uint8_t syndrome, const char* why);
  Verdict receive_error(Status status, const char* why, uint8_t syndrome);
  void break_off();
  void drop_message();
  void abort_receive();
  Elements receive_memory() const;
  const char* place(const Elements& memory, uint64_t offset, const wire::Segment& segment,
                    wire::Payload& payload, wire::CopyResult& result, uint64_t from = 0) const;
  void complete(ReceiveCompletion& completion);
  void complete_receive(const wire::Segment& segment, Opcode opcode, uint32_t bytes);
  void count_message(uint32_t bytes);
  void tell_of_read(const Response& response, bool succeeded);
  void tell_of_write(bool succeeded);
  Verdict refuse_read(uint8_t syndrome, const char* why);
  void count_arrived(const wire::Segment& segment);
  void count_arrived_frame(uint32_t bytes);
  void count_answered(const wire::Segment& segment);
  void count_failure(Status status);
  wire::Segment reply_to(uint32_t psn, uint8_t syndrome) const;
  bool send_response(Response& response);
  bool send_responses();
  bool send_acknowledgement();
  const char* gather(const Response& response, uint32_t& chunk, Window& window, std::byte* buffer) const;

  Engine& engine_;
  QueuePair& qp_;
  const bool reliable_;
  const bool dynamic_;  ///< of a DC target
  const bool xrc_;      ///< of an XRC receiver
  Landing landing_;     ///< of an XRC receiver: where the shared receive queue `srqn_` leads
  uint32_t srqn_ = 0;
  const bool is_guest_;       ///< of a receiver in another process
  bool synchronous_ = false;  ///< the sender of what has come waits in the call
  Relay relay_;
  SpinLock lock_;

  static constexpr uint32_t kNobody = UINT32_MAX;
  uint32_t peer_qpn_ = kNobody;
  uint32_t connection_ = 0;
  uint32_t expected_psn_ = 0;
  std::atomic<uint32_t> own_psn_{0};
  std::atomic<uint32_t>& told_psn_;  ///< what peers learn of it, even after this process has ended
  uint32_t msn_ = 0;
  bool nak_sent_ = false;  ///< a refusal is out: drop until the refused one comes again
  bool ack_due_ = false;
  uint8_t due_syndrome_ = 0;
  uint32_t due_psn_ = 0;  ///< of the refused segment
  bool flushed_ = false;
  std::atomic<bool> may_owe_{false};
  std::atomic<bool> leaving_{
      false};  ///< on a wire: what was owed is in a burst of the engine's, maybe not sent yet
  wire::Channel* reply_channel_ = nullptr;
  bool is_wire_ = false;               ///< of the reply channel
  std::unique_ptr<WayBack> way_back_;  ///< there, of a DC target
  uint32_t unanswered_ = 0;            ///< packets taken since the last answer; on a wire alone
  AnswerHabit habit_;                  ///< of the program
  std::atomic<bool> left_alone_{false};
  uint64_t congested_ns_ = 0;             ///< when the peer was last told of congestion
  std::unique_ptr<Answered[]> answered_;  ///< atomics, the newest ones: kReadsMax, once there are some
  uint32_t answered_count_ = 0;           ///< ever

  std::unique_ptr<ReceiveWork> work_;  ///< taken and not yet completed
  bool work_held_ = false;             ///< kept for the message that comes again
  Progress message_;
  Fifo<Response> responses_;
};

}  // namespace verbatim::engine
