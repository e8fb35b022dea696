// SPDX-License-Identifier: MIT
#pragma once

// One end of a connection: plays its plan through an engine's queue pair, and checks from outside whatever
// that queue pair tells it: against its own plan, against the peer's, and against the peer's memory.
//
//   RC, XRC  each message arrives once, in order, intact; or it is the first to fail, for a reason there was
//
//   UC       each arrives at most once, in order, intact
//
//   UD       what arrives was sent, and is intact
//
// A completion of a message says that the peer has it: that is true at that moment.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/queue_pair.h"
#include "testing/simulation/host.h"
#include "testing/simulation/plan.h"

namespace verbatim::simulation {

/// Where findings go: the first one ends the run.
class Findings {
 public:
  virtual ~Findings() = default;
  virtual void fail(const std::string& what) = 0;
};

class End final : public engine::SendQueue,
                  public engine::ReceiveQueue,
                  public engine::ReceiveSink,
                  public engine::QueuePairEvents {
 public:
  /// What the two ends of a connection agree upon, and what each does by itself.
  struct Limits {
    uint32_t mtu = 1024;
    uint8_t timeout = 10, retry_count = 7, rnr_retry = 7, min_rnr_timer = 1;
    uint8_t reads = 4;
    uint32_t depth = 16;
    uint32_t first_psn = 0;
  };

  End(SimulatedHost& host, Network& network, Trace& trace, Findings& findings, Plan plan,
      const Limits& limits, uint64_t seed);

  /// Makes the queue pair and its memory; `peer_plan`: what will come.
  void open(const Plan& peer_plan);
  void connect(End& peer);
  /// The host has gone.
  void die();
  bool is_dead() const { return qp_ == nullptr; }

  /// The program puts the queue pair into the error state.
  void give_up();
  void post_sends(uint32_t count);
  void post_receives(uint32_t count);
  /// All that it sends has ended.
  bool is_finished() const { return is_dead() || ended_ == plan_.messages.size(); }
  /// After the last event: memory is as the completions say.
  void check_memory() const;
  /// Ends what is open, and destroys the queue pair.
  void close();

  uint32_t number() const { return number_; }
  uint32_t host() const { return host_.number(); }
  const Plan& plan() const { return plan_; }
  uint32_t ended() const { return ended_; }
  bool has_failed() const { return failed_; }
  std::string state() const;

  // engine::SendQueue, ReceiveQueue, ReceiveSink, QueuePairEvents
  Fetch fetch(uint32_t index, engine::SendWork& work, uint32_t& next, const char*& reason) override;
  Performed perform(uint32_t index, bool outstanding, engine::Status& status, const char*& reason) override;
  void complete(const engine::SendCompletion& completion) override;
  Take take(engine::ReceiveWork& work, const char*& reason) override;
  void complete(const engine::ReceiveCompletion& completion) override;
  void on_event(engine::AsyncEvent event) override;

 private:
  /// Memory with a key, at addresses that do not depend on where it lies.
  struct Region {
    std::vector<uint8_t> bytes;
    uint64_t start = 0;
    uint32_t key = 0;
  };
  void make_region(Region& region, uint64_t start, size_t bytes, uint32_t access);
  void fail(const std::string& what) const;
  void open_xrc(engine::QueuePairSpec spec);
  void bring_up(engine::QueuePair& qp, uint32_t peer_number);
  void step(engine::QueuePair& qp, engine::QpState to, uint32_t mask);
  void put_into_error();
  void fill_elements(const Message& message, engine::SendWork& work) const;

  void check_success(const Message& message, uint32_t index);
  void check_atomic(const Message& message, uint32_t index);
  void check_failure(const engine::SendCompletion& completion);
  bool is_excused(const Message& message, engine::Status status) const;
  void check_received(const engine::ReceiveCompletion& completion);
  const Message* find_message(const engine::ReceiveCompletion& completion);
  void check_bytes(const Message& message, const engine::ReceiveCompletion& completion);
  void check_failed_receive(const engine::ReceiveCompletion& completion);
  void check_target() const;
  void check_counter() const;
  bool may_be_written(uint32_t message) const;
  bool may_be_broken() const;

  SimulatedHost& host_;
  Network& network_;
  Trace& trace_;
  Findings& findings_;
  const Plan plan_;
  const Limits limits_;
  Random random_;
  engine::QpAttributes attributes_;
  engine::QueuePair* qp_ = nullptr;
  uint32_t number_ = 0;
  // Of XRC: `qp_` sends, and this receives, into one queue that has two numbers.
  engine::QueuePair* receiver_ = nullptr;
  uint32_t receiver_number_ = 0;
  uint32_t shared_queues_[2] = {};
  uint32_t last_receives_ = 0;  ///< how often it was told that no receive request will end any more
  End* peer_ = nullptr;
  Region source_, target_, landing_, inbox_, counter_;
  uint32_t capacity_ = 0;  ///< of a receive request

  uint32_t posted_ = 0, begun_ = 0, ended_ = 0;
  bool failed_ = false, given_up_ = false;
  bool refused_ = false;  ///< a message of the peer did not fit its receive request
  std::vector<uint32_t> performed_;
  std::vector<uint32_t> arrivals_;  ///< how often each of the peer's messages has come
  uint32_t receives_posted_ = 0, receives_taken_ = 0, receives_ended_ = 0;
  uint32_t received_ = 0;        ///< messages of the peer that ended a receive request
  uint32_t next_two_sided_ = 0;  ///< number of the next such message
  uint32_t empty_takes_ = 0;
  bool sabotaged_ = false;
};

}  // namespace verbatim::simulation
