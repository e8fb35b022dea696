// SPDX-License-Identifier: MIT
#pragma once

// One host of the simulated world: an engine behind a fabric whose channels are the network. A host may crash
// and start again; nothing of what it knew is left then.

#include <deque>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "testing/simulation/network.h"
#include "wire/link/wire_channel.h"

namespace verbatim::simulation {

class SimulatedFabric;

/// The way to another host.
class SimulatedChannel final : public wire::WireChannel {
 public:
  SimulatedChannel(SimulatedFabric& fabric, uint32_t to) : fabric_(fabric), to_(to) {}

  uint32_t payload_max(bool) const override { return 16 * 4096; }
  wire::SendResult send(const wire::Segment& segment, const wire::Piece* pieces, uint32_t count,
                        bool may_pull, wire::Segment* answer) override;

 private:
  SimulatedFabric& fabric_;
  const uint32_t to_;
};

class SimulatedFabric final : public wire::Fabric, public Station {
 public:
  SimulatedFabric(Network& network, Trace& trace, const Clock& clock, uint32_t host);
  ~SimulatedFabric() override;

  // Station
  void arrive(uint32_t from, std::vector<uint8_t>& datagram, bool congested) override;
  // wire::Fabric
  wire::Channel* channel(const Gid& dest, uint32_t dest_qpn) override;
  wire::Channel* neighbor(uint32_t) override { return nullptr; }
  std::string obstacle(const Gid&, uint32_t) override { return ""; }
  uint32_t multicast(const Gid&, wire::Channel**, uint32_t) override { return 0; }
  uint32_t poll(wire::Receiver& receiver, uint32_t budget) override;
  bool pending() const override { return !inbox_.empty(); }
  bool worth_polling() override { return pending(); }
  bool shares_processor() override { return false; }
  bool want_wake(bool) override { return false; }
  void wait_for_peers() override {}
  std::byte* published() override { return published_; }
  size_t published_bytes() const override { return sizeof(engine::Published); }

  /// Sends fail for lack of room so many times in a million.
  uint32_t busy = 0;
  /// When channels that were busy have room again; kNever: none was.
  uint64_t room_at_ns() const { return room_at_ns_; }
  void make_room(wire::Receiver& receiver);

 private:
  friend class SimulatedChannel;
  struct Arrival {
    uint32_t from;
    bool congested;
    std::vector<uint8_t> datagram;
  };
  void deliver(Arrival& arrival, wire::Receiver& receiver);

  Network& network_;
  Trace& trace_;
  const Clock& clock_;
  const uint32_t host_;
  std::byte* published_;
  std::vector<std::unique_ptr<SimulatedChannel>> channels_;
  std::deque<Arrival> inbox_;
  uint64_t room_at_ns_ = kNever;
};

class SimulatedHost final : public engine::Host {
 public:
  SimulatedHost(Network& network, Trace& trace, const Clock& clock, uint32_t number)
      : network_(network), trace_(trace), clock_(clock), number_(number) {}

  /// Queue pair numbers begin at `slot`, another one after each crash, as late packets may still come.
  void start(uint32_t slot);
  void crash();
  bool is_up() const { return engine_ != nullptr; }
  engine::Engine& engine() { return *engine_; }
  SimulatedFabric& fabric() { return *fabric_; }
  uint32_t number() const { return number_; }
  /// Does all that can be done now.
  void run();
  /// When there is something to do again, apart from arrivals.
  uint64_t next_ns() const;

  // engine::Host
  uint32_t gid_count() const override { return 1; }
  engine::GidEntry gid(uint32_t index) const override;
  bool link_up() const override { return true; }
  Outcome join(const Gid&) override { return Done{}; }
  Outcome leave(const Gid&) override { return Done{}; }
  Expected<uint32_t> qpn_slot(uint32_t block) override;
  void wake_engine_thread() override { woken_ = true; }

 private:
  Network& network_;
  Trace& trace_;
  const Clock& clock_;
  const uint32_t number_;
  uint32_t slot_ = 0;
  std::unique_ptr<SimulatedFabric> fabric_;
  std::unique_ptr<engine::Engine> engine_;
  uint64_t next_ns_ = kNever;
  bool woken_ = false;
};

}  // namespace verbatim::simulation
