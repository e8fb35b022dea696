// SPDX-License-Identifier: MIT
#pragma once

// Hosts that send hostile packets to the queue pairs of a victim.

#include <vector>

#include "testing/golden.h"
#include "tests/fuzz/wire_victim.h"
#include "wire/format/packet.h"

namespace verbatim::fuzz {

/// Sends from one address.
class Attacker {
 public:
  Attacker(Random& random, Victim& victim, uint8_t number);

  const Gid& source() const { return source_; }
  /// Every field near what it should be. `to_datagrams`: also to the queue pair that takes packets of
  /// anybody.
  void send_any(bool to_datagrams);
  /// One of those that were captured, made to fit, and changed.
  void send_captured(const std::vector<testing::Golden>& captured, bool to_datagrams);
  /// A request that names memory, with a wrong key, range or right.
  void send_wrong_key();
  /// To a queue pair that nobody has.
  void send_to_nobody();
  /// So many right requests in order, to the connected queue pair, which is fresh; kept for `play_again`.
  void send_right(uint32_t count);
  void play_again(Attacker& from);

  void send(const roce::Headers& headers, std::span<const uint8_t> payload);
  /// Damaged or cut now and then.
  void send_roughly(const roce::Headers& headers, std::span<const uint8_t> payload);

 private:
  struct Sent {
    roce::Headers headers;
    std::vector<uint8_t> payload;
  };
  void put(const uint8_t* packet, size_t bytes);
  uint32_t near(uint32_t value) { return random_.one_in(4) ? value + random_.below(9) - 4 : value; }
  roce::Headers any_headers(bool to_datagrams);
  void aim(roce::Headers& headers, bool to_datagrams);
  size_t any_payload(const roce::Headers& headers);
  std::vector<uint8_t> noise(size_t bytes);
  /// A key and range that together allow nothing; `writes`: what it would be for.
  void name_forbidden(roce::Reth& reth, bool writes);

  Random& random_;
  Victim& victim_;
  const Gid source_;
  int socket_;
  uint16_t port_ = 0;
  uint32_t psn_ = 0;
  std::vector<Sent> right_;
};

}  // namespace verbatim::fuzz
