// SPDX-License-Identifier: MIT
#pragma once

// One run of the simulated world: hosts, connections between them, traffic, a bad network, crashes, all by
// one seed. First the network is bad; then it heals, and everything has to come to its end.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "testing/simulation/end.h"

namespace verbatim::simulation {

struct Verdict {
  bool passed = true;
  std::string finding;  ///< what is wrong, with the state of all connections
  std::string trace;    ///< the newest packets and events
  uint64_t digest = 0;  ///< the same for two runs that did the same
  uint64_t packets = 0, completed = 0, failed = 0, crashes = 0;
};

struct Options {
  uint64_t seed = 0;
  Sabotage sabotage = Sabotage::kNone;
  size_t trace_lines = 400;
};

/// Plays one seed.
Verdict play(const Options& options);

class World final : public Findings {
 public:
  explicit World(const Options& options);
  ~World() override;
  Verdict run();
  void fail(const std::string& what) override;

 private:
  /// Something that happens at a time of its own.
  struct Action {
    enum class Kind : uint8_t { kSends, kReceives, kCrash, kStart, kPart, kGiveUp };
    uint64_t at_ns;
    Kind kind;
    uint32_t which;  ///< end or host
    uint32_t count;  ///< of requests; or the other host, or how long in nanoseconds
  };
  void choose_faults();
  void make_connections(uint32_t count);
  void make_connection(uint32_t a, uint32_t b);
  void schedule(const Action& action);
  void schedule_traffic(uint32_t end);
  void schedule_accidents();
  void act(const Action& action);
  void crash(uint32_t host);
  void start(uint32_t host);
  void heal();
  void run_hosts();
  bool advance(uint64_t until_ns);
  bool all_finished() const;
  void finish();

  const Options options_;
  VirtualClock clock_;
  Trace trace_;
  Random random_;
  Network network_;
  std::vector<std::unique_ptr<SimulatedHost>> hosts_;
  std::vector<std::unique_ptr<End>> ends_;  ///< two for each connection
  std::vector<Action> actions_;             ///< the next one last
  uint32_t next_slot_ = 1;
  uint64_t steps_ = 0;
  Verdict verdict_;
};

}  // namespace verbatim::simulation
