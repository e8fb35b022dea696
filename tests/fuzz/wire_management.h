// SPDX-License-Identifier: MIT
#pragma once

// Hostile management datagrams: to queue pair 1, which is the agent's, from a host that sees all that goes
// over the wire.

#include <deque>
#include <vector>

#include "tests/fuzz/wire_attacker.h"
#include "wire/format/cm.h"

namespace verbatim::fuzz {

class Intriguer {
 public:
  /// `captured`: packets, of which it takes those that are management datagrams.
  Intriguer(Random& random, const std::vector<testing::Golden>& captured);
  ~Intriguer();
  Intriguer(const Intriguer&) = delete;
  Intriguer& operator=(const Intriguer&) = delete;

  /// Takes what went by.
  void listen();
  void send_any(Attacker& from);
  /// A request for a connection that is as it should be.
  void send_right(Attacker& from);
  uint64_t overheard() const { return overheard_; }

 private:
  roce::cm::Message any_message(const Gid& from);
  void fit(roce::cm::Message& message, const Gid& from);

  Random& random_;
  std::vector<roce::cm::Message> captured_;
  std::deque<roce::cm::Message> heard_;
  uint64_t overheard_ = 0;
  uint32_t next_id_ = 1;
  int ear_;
};

}  // namespace verbatim::fuzz
