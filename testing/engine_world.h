// SPDX-License-Identifier: MIT
#pragma once

// Two engines in one process, joined by the same-host link, with queues that tests fill by hand.

#include <unistd.h>

#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/clock.h"
#include "base/fault_copy.h"
#include "engine/engine.h"
#include "engine/queue_pair.h"
#include "wire/link/shm/shm_fabric.h"

namespace verbatim::testing {

/// Time that stands still until a test moves it.
class ManualClock final : public Clock {
 public:
  uint64_t now_ns() const override { return now_; }
  uint64_t wall_ns() const override { return now_; }
  void advance(uint64_t ns) { now_ += ns; }

 private:
  std::atomic<uint64_t> now_{1'000'000'000};
};

/// The GID that every engine of these worlds lives at: ::ffff:10.0.0.1.
inline Gid world_gid() {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  gid.bytes[12] = 10;
  gid.bytes[15] = 1;
  return gid;
}

/// Stands in for the agent: knows every fabric by slot.
class World final : public wire::Neighborhood {
 public:
  struct Member {
    wire::shm::ShmFabric* fabric;
    uint64_t generation;
  };
  Expected<wire::PeerHandles> introduce(uint32_t slot) override;
  uint64_t slot_generation(uint32_t slot) const override {
    return slot < members_.size() ? members_[slot].generation : 0;
  }
  bool is_local(const Gid& gid) const override { return gid == world_gid(); }
  uint32_t members(const Gid&, uint32_t* slots, uint32_t max) const override;

  void add(uint32_t slot, wire::shm::ShmFabric& fabric);
  void remove(uint32_t slot) { members_[slot].generation = 0; }

 private:
  std::vector<Member> members_;
  uint64_t next_generation_ = 100;
};

/// One process's worth: fabric, engine and the host around them.
class Node final : public engine::Host {
 public:
  Node(World& world, uint32_t slot, const Clock& clock);
  ~Node() override;

  uint32_t gid_count() const override { return 1; }
  engine::GidEntry gid(uint32_t index) const override;
  bool link_up() const override { return true; }
  Outcome join(const Gid&) override { return Done{}; }
  Outcome leave(const Gid&) override { return Done{}; }
  Expected<uint32_t> qpn_slot(uint32_t block) override;
  void wake_engine_thread() override {}

  engine::Engine& engine() { return *engine_; }
  wire::shm::ShmFabric& fabric() { return *fabric_; }

 private:
  World& world_;
  uint32_t slot_;
  std::unique_ptr<wire::shm::ShmFabric> fabric_;
  std::unique_ptr<engine::Engine> engine_;
};

/// A queue pair with queues that are plain lists.
class TestQp : public engine::SendQueue,
               public engine::ReceiveQueue,
               public engine::ReceiveSink,
               public engine::QueuePairEvents {
 public:
  /// What only DC knows: the access key of a target; with how many failed streams an initiator fails.
  struct Dynamic {
    uint64_t access_key = 0;
    uint32_t errored_streams_max = 1;
  };
  TestQp(Node& node, engine::QpType type, uint32_t domain = 1, uint32_t depth = 16)
      : TestQp(node, type, Dynamic{}, domain, depth) {}
  TestQp(Node& node, engine::QpType type, const Dynamic& dynamic, uint32_t domain = 1, uint32_t depth = 16);
  ~TestQp() override { node_.engine().destroy_queue_pair(qp_); }

  /// Connects to `peer` (one way): INIT, RTR, RTS with forgiving limits; `psn` is what this end sends first.
  void connect(const TestQp& peer, uint32_t send_psn = 100, uint32_t receive_psn = 100);
  /// Makes a DC initiator or target ready.
  void start();
  engine::QpAttributes attributes;  ///< used by connect and start; tests change it before

  void post(const engine::SendWork& work) {
    sends.push_back(work);
    qp_->ring();
  }
  void post_receive(void* to, uint32_t length, uint32_t lkey);

  Fetch fetch(uint32_t index, engine::SendWork& work, uint32_t& next, const char*& reason) override;
  void complete(const engine::SendCompletion& completion) override { send_completions.push_back(completion); }
  Take take(engine::ReceiveWork& work, const char*& reason) override;
  void complete(const engine::ReceiveCompletion& completion) override {
    receive_completions.push_back(completion);
  }
  void on_event(engine::AsyncEvent event) override { events.push_back(event); }

  engine::QueuePair& qp() { return *qp_; }
  uint32_t number() const { return qp_->number(); }
  /// One transition with the attributes that `mask` names.
  void step(engine::QpState to, uint32_t mask);

  std::vector<engine::SendWork> sends;
  std::deque<engine::ReceiveWork> receives;
  std::vector<engine::SendCompletion> send_completions;
  std::vector<engine::ReceiveCompletion> receive_completions;
  std::vector<engine::AsyncEvent> events;

 private:
  Node& node_;
  engine::QueuePair* qp_;
  uint32_t posted_ = 0;
};

/// Memory with a key.
class TestMemory {
 public:
  TestMemory(Node& node, size_t bytes, uint32_t access, uint32_t domain = 1);
  ~TestMemory();
  char* data() { return data_.data(); }
  uint64_t address() { return reinterpret_cast<uint64_t>(data_.data()); }
  uint32_t key() const { return key_; }
  engine::Sge sge(size_t offset, uint32_t length) { return {address() + offset, length, key_}; }

 private:
  Node& node_;
  std::vector<char> data_;
  uint32_t key_;
};

}  // namespace verbatim::testing
