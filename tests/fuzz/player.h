// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/fuzz/memories.h"
#include "tests/fuzz/raw_queues.h"

namespace verbatim::fuzz {

/// What a player tells the other: its queue pair, and where its memory lies.
struct Card {
  uint32_t qpn = 0;
  Target targets[Memories::kTargets];
};

/// One side of a world: queues and memory of its own, and a temper that says how often it breaks which of
/// them. One thread; two players may have one each.
class Player {
 public:
  Player(hw::Hca& hca, hw::Pd* pd, hw::QpType type, uint64_t seed);
  ~Player();
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  Card card() const;
  /// Connects to the other player, which does the same; again whenever things have gone far enough.
  void meet(const Card& peer);
  /// One thing that a program might do, or never would.
  void step();
  hw::QpType type() const { return type_; }
  const Memories& memories() const { return memories_; }
  /// Adds what has ended on all queues that it has had.
  void add_taken(Taken& sum) const;

 private:
  /// One in so many steps, 0: never.
  struct Temper {
    uint32_t doorbells, queues, memories, resizes, rebirths, shoves, odd_connections;
  };
  uint32_t now_and_then(uint32_t often);
  bool misbehave();
  void be_born_again();

  hw::Hca& hca_;
  hw::Pd* const pd_;
  const hw::QpType type_;
  Random random_;
  const Temper temper_;
  Memories memories_;
  std::unique_ptr<RawQueues> queues_;
  Card peer_;
  Taken taken_;
};

}  // namespace verbatim::fuzz
