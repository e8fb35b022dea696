// SPDX-License-Identifier: MIT
#pragma once

// The requester: turns send work requests into segments, for every wire.
//
//  fetch --> check keys --> direct access (one-sided, nothing in flight, peer's memory in reach) --> complete
//                       \-> segments on the channel --> window --> ack / response --> complete
//
// One cursor (queue index, bytes already sent of that message) says where sending goes on. A busy channel
// leaves it in place; a NAK or a loss moves it back to the oldest unacknowledged message. Completions are in
// queue order: an entry that fails locally waits until everything before it has completed.
//
// PSNs count packets of the path MTU on every wire. Direct accesses use up PSNs that the responder never
// sees, so a segment also carries the PSN that the responder is to expect before it (base_psn).
//
// A DC initiator (requester_dc.cpp) is connected to one target at a time, the one that the work request at
// the cursor names. When that changes, what is outstanding ends first; then sending goes on as a new
// connection.
//
// Over an Ethernet wire (requester_wire.cpp) packets may be lost: what is outstanding stays in the window
// when the cursor goes back, how far each entry got is known by packets, and no more is under way than a
// window of bytes.
//
// Timers: RNR wait (exact), silence of the other end (coarse: a tick looks whether it lives; exact on an
// Ethernet wire, where it means loss).

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "base/spinlock.h"
#include "engine/flight.h"
#include "engine/packet_count.h"
#include "engine/port.h"
#include "engine/published.h"
#include "engine/qp_types.h"
#include "engine/rate_limit.h"
#include "engine/work.h"
#include "wire/link/channel.h"

namespace verbatim::engine {

class Elements;
class Engine;
class QueuePair;
struct PublishedQp;
struct Window;

class Requester final : private KeyErrors {
 public:
  Requester(Engine& engine, QueuePair& qp);

  SpinLock& lock() { return lock_; }
  bool reliable() const { return reliable_; }

  /// The send doorbell was rung. Takes the lock.
  void ring();
  /// Runs the send queue as far as it goes, within a bounded amount of work. Takes the lock.
  void run();
  /// An acknowledgement or response for this queue pair. Takes the lock.
  void on_reply(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload);
  /// A request from the peer acknowledges this end's requests as well. Takes the lock.
  void on_acknowledgement(wire::Channel& from, const wire::Segment& segment);
  /// Looks at the timers; returns the next instant at which to look again, kNever: none. Takes the lock.
  uint64_t on_timer(uint64_t now_ns);

  /// Lets work of a failed stream of a DC initiator go again. EINVAL: it has not failed. Takes the lock.
  Outcome reset_stream(uint16_t stream);
  /// Tells the target that a DC initiator is connected to that it ends. Takes the lock.
  void part();

  // With the lock held:
  /// Whom the attributes name.
  void aim(const Place& peer) { peer_.place = peer; }
  /// Looks for the peer anew, as a member of that partition.
  void change_partition(uint16_t pkey) {
    peer_.place.pkey = pkey;
    peer_verified_ = false;
    lose_channel();
  }
  /// The attributes name another path: what the peer may lack goes there.
  void change_way();
  /// New attributes are in force; a connection begins with `first_psn`.
  void connect(uint32_t first_psn);
  void reset();
  /// Ends everything in the queue with flush errors.
  void flush();
  /// The queue entry that is next, or goes on.
  uint32_t position() const { return index_; }
  bool idle() const { return window_count_ == 0 && sent_bytes_ == 0 && !repeating(); }
  /// What it sends counts for this limit from now on; nullptr: for none. Takes the lock.
  void pace(std::shared_ptr<RateLimit> limit);
  bool watched = false;  ///< on the engine's timer list

  struct Message;  ///< one work request with its memory, ready to be sent (engine/message.h)

 private:
  struct Outstanding {
    uint32_t index, next_index, first_psn, base_psn, packets, bytes;
    uint32_t received;  ///< packets of it that the peer has, or whose responses are here; on a wire alone
    Opcode opcode;
    bool signaled, done;
  };
  /// What a message of this kind between two processes of the host counts as.
  struct Measured {
    Opcode opcode{};
    uint32_t bytes = UINT32_MAX;  ///< more than any message has: nothing was measured yet
    Exchange exchange;
    PacketCount both;  ///< of its two sides
    std::atomic<uint64_t> PublishedTraffic::*operations = nullptr;
    uint32_t peer_device = 0;
    bool same_port = true;
  };
  enum class Step : uint8_t { kAgain, kStop };
  /// Whom this end is connected to.
  struct Peer {
    Place place;
    uint32_t connection = 0;  ///< of a DC initiator; 0: none
    uint64_t access_key = 0;
    bool knows = false;  ///< of the connection: it was sent something
  };
  /// What a DC initiator has beside.
  struct Initiator {
    Destination route;  ///< to the target
    std::vector<uint16_t> failed_streams;
  };

  /// The cursor stands before work that has been sent once already.
  bool repeating() const { return static_cast<int32_t>(sent_until_ - index_) > 0; }

  // Sending, with the lock held.
  void ring_wire();
  void run_locked();
  void run_queue();
  void go_on();
  void note_rest();
  Step advance(uint32_t& next);
  bool paced();
  void charge(uint64_t bytes);
  Step send_datagram(Message& message);
  void address_to(const Destination& to, wire::Segment& segment) const;
  Step send_frame(Message& message);
  Step send_segments(Message& message);
  Step after_frame(wire::SendResult result, Message& message, uint32_t room);
  const char* stage_frame(const Message& message, bool whole, Window& window, uint8_t* buffer) const;
  bool let_out(uint8_t* frame, uint32_t& bytes) const;
  Step send_connected(Message& message);
  Step send_pieces(Message& message);
  Step send_scattered(Message& message, uint32_t most);
  const char* gather_datagram(const Message& message, Window& window, uint8_t* buffer) const;
  Step submit(Message& message, uint32_t chunk, const wire::Piece* pieces, uint32_t count, bool may_pull);
  void add_acknowledgement(wire::Segment& segment);
  Step after_send(wire::SendResult result, Message& message, const wire::Segment& segment,
                  const wire::Segment& answer);
  Step after_message(Message& message);
  Step finish_local_only(Message& message);
  Step fail_local(uint32_t index, uint32_t next, const SendWork& work, Status status, const char* why);
  Status check(Message& message, const char*& why);
  bool wants_acknowledgement(const Message& message) const;
  wire::Segment make_segment(const Message& message, uint32_t chunk) const;
  bool try_direct(Message& message);
  bool move_scattered(const Message& message, uint64_t address);
  bool is_connected_here(const PublishedQp& peer);
  bool peer_allows(const Message& message, const wire::Channel& channel, uint64_t& address);
  bool grow_window();
  void record(const Message& message, bool done);
  void complete(const SendCompletion& done);
  void complete(uint32_t index, Opcode opcode, bool signaled, Status status, uint32_t bytes,
                uint8_t detail = 0) {
    complete({index, opcode, status, bytes, signaled, detail});
  }

  // Counters of the port, with the lock held.
  void count_exchange(Opcode opcode, uint32_t bytes);
  void measure(Opcode opcode, uint32_t bytes);
  void count_on_other_port();
  void count_sent(const wire::Segment& segment, uint32_t frame);
  void count_sent_frame(uint32_t bytes);
  void count_returned(const wire::Segment& segment);
  void count_failure(Status status);

  // Answers, with the lock held.
  void handle_reply(const wire::Segment& segment, wire::Payload* payload);
  void acknowledge(uint32_t psn);
  void take_read_response(const wire::Segment& segment, wire::Payload* payload);
  void take_atomic_response(const wire::Segment& segment);
  void take_nak(const wire::Segment& segment);
  void take_refusal(const wire::Segment& segment);
  void pop_done();
  void note_begun();
  void rewind(uint32_t psn);
  void step_over_oldest();
  void fail_oldest(Status status, const char* why, uint8_t detail = 0);
  bool refetch(const Outstanding& entry, Message& message);
  Outstanding* find_outstanding(uint32_t psn);
  Status diagnose_read(Message& message);
  Elements memory_of(const Message& message) const;
  bool read_within_process(const Message& message, const wire::Segment& answer);
  void note_response(const wire::Segment& answer, uint64_t done, void* bytes, uint64_t count,
                     uint64_t total) const;
  bool place_response(const Message& message, uint64_t offset, uint64_t length, wire::Payload& payload);

  // An Ethernet wire, with the lock held.
  Step send_on_wire(Message& message);
  Step after_wire_send(wire::SendResult result, Message& message, const wire::Segment& segment,
                       uint32_t chunk);
  bool gathers();
  bool fits_window(const Message& message, uint32_t& chunk);
  bool fits_again(const Message& message, uint32_t& chunk) const;
  void prepare_for_wire(const Message& message, uint32_t chunk, wire::Segment& segment) const;
  bool is_as_before(const Message& message) const;
  Step pass_again(const Message& message);
  uint32_t oldest_lacking() const;
  void handle_packet(const wire::Segment& segment, wire::Payload& payload);
  void take_acknowledgement(uint32_t psn);
  void received_until(uint32_t psn);
  void take_wire_response(const wire::Segment& segment, wire::Payload& payload);
  bool take_response_bytes(const Message& message, const wire::Segment& segment, wire::Payload& payload);
  void take_wire_nak(const wire::Segment& segment);
  void note_received(Outstanding& entry, uint32_t packets);
  void end_oldest();
  void go_back_to_oldest();
  void infer_loss();
  void expect_answer();
  void on_silence();
  void probe(uint64_t now_ns);
  void repeat_oldest();

  // DC initiators, with the lock held.
  bool meets_target(const Message& message, Step& step);
  Step flush_one(const Message& message);
  bool has_failed(uint16_t stream) const;
  bool survives(uint16_t stream);
  uint16_t stream_of(uint32_t index);
  void go_on_after_failure();
  void disconnect();

  // Errors of memory keys, with the lock held.
  void on_key_error(uint32_t key, DataTransform& transform) override;
  bool must_drain();

  // Time.
  void wait_for_ready(uint8_t code, uint32_t psn);
  void note_lost();
  void give_up();
  void lose_channel();
  bool is_ignored();
  const PublishedQp* peer_entry() const;
  void acknowledge_received(const PublishedQp* peer);
  wire::Channel* channel();
  void watch(uint64_t deadline_ns);
  Outstanding& oldest() { return window_[window_head_ & window_mask_]; }
  const Outstanding& oldest() const { return window_[window_head_ & window_mask_]; }

  Engine& engine_;
  QueuePair& qp_;
  const uint32_t offered_;     ///< opcodes of its service type, a bit for each
  const uint32_t length_max_;  ///< of a message
  const bool connected_;       ///< neither datagrams nor frames
  const bool reliable_;
  const bool dynamic_;  ///< a DC initiator
  const bool xrc_;      ///< an XRC sender
  SpinLock lock_;

  // The cursor.
  uint32_t index_ = 0;       ///< next queue entry to send
  uint32_t sent_bytes_ = 0;  ///< of that entry's message
  uint32_t sent_until_ = 0;  ///< entries before it have begun, even if the cursor went back
  uint32_t next_psn_ = 0;
  uint32_t ring_psn_ = 0;  ///< what the responder expects

  // Sent and not yet ended, oldest first.
  std::unique_ptr<Outstanding[]> window_;
  uint32_t window_mask_ = UINT32_MAX, window_head_ = 0, window_count_ = 0;  ///< without entries at first
  uint32_t window_max_ = 1;                                                 ///< entries that it may have
  uint32_t reads_ = 0;                                                      ///< reads and atomics among them
  uint32_t behind_ = 0;  ///< newest ones that the cursor, gone back, stands before; on a wire alone

  Peer peer_;
  wire::Channel* channel_ = nullptr;
  Measured measured_;
  bool is_wire_ = false;  ///< of the channel
  Flight flight_;
  std::unique_ptr<Initiator> initiator_;
  bool in_message_ = false;  ///< some, not all segments of the message at the cursor are out
  Opcode begun_opcode_{};    ///< of that message, whose queue entry a program might change meanwhile
  uint32_t begun_bytes_ = 0;
  bool peer_verified_ = false;
  bool unheard_ = false;           ///< at the last look nobody took the requests that are outstanding
  bool last_rung_ = false;         ///< the entry at the cursor is the last that was rung
  bool stalled_ = false;           ///< the last run ended with entries left to send: a reply may let it go on
  bool was_busy_ = false;          ///< not idle at the last look: SQD reports the change
  bool key_failed_ = false;        ///< the transform of some key has recorded an error
  KeyErrors& key_errors_ = *this;  ///< for const members
  uint32_t peer_generation_ = 0;
  uint32_t first_psn_ = 0;
  uint64_t budget_bytes_ = 0;

  uint64_t rnr_until_ns_ = 0;    ///< 0: not waiting for the responder to get ready
  uint64_t retry_at_ns_ = 0;     ///< 0: not waiting to send again what was lost
  uint64_t paced_until_ns_ = 0;  ///< 0: not waiting for the rate limit
  std::shared_ptr<RateLimit> rate_limit_;
  uint32_t rnr_tries_ = 0;
  uint32_t lost_tries_ = 0;
};

}  // namespace verbatim::engine
