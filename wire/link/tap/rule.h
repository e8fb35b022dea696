// SPDX-License-Identifier: MIT
#pragma once

// Rules that make a network bad on purpose: which packets, how many of them, and what befalls them. In words
// they are items with commas between them:
//
//   drop=1%                       drop 0.5%, reorder=1%, corrupt=0.1%, duplicate=2%: how many
//   delay=2ms,jitter=500us        each of them, or `probability=10%`
//   drop=100%,opcode=read+ack,qp=0x4010,direction=in,nth=3,count=1,seed=7
//
// Several actions of one list are a rule each, with the same selection. Lists have semicolons between them.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "wire/format/opcode.h"

namespace verbatim::wire::tap {

enum class Action : uint8_t { kDrop, kDelay, kDuplicate, kReorder, kCorrupt };
inline constexpr uint32_t kActions = 5;

/// Seen from the host that has the rule.
enum class Direction : uint8_t { kOut, kIn };

inline constexpr uint32_t kAnyQpn = UINT32_MAX;
inline constexpr uint32_t kProbabilityOne = 1'000'000'000;

/// What rules look at. Numbers that a packet does not name are kAnyQpn.
struct PacketFacts {
  Direction direction = Direction::kOut;
  roce::Opcode opcode{};
  uint32_t source_qpn = kAnyQpn, dest_qpn = kAnyQpn;
};

/// One rule. Any bytes are a rule; what makes no sense matches nothing.
struct Rule {
  Action action = Action::kDrop;
  uint8_t directions = 1;    ///< bit n: Direction n
  uint8_t management = 0;    ///< 1: the connection manager's messages, and what `opcodes` names
  uint32_t probability = 0;  ///< of kProbabilityOne
  uint32_t qpn = kAnyQpn;    ///< of either end
  uint32_t source_qpn = kAnyQpn, dest_qpn = kAnyQpn;
  std::array<uint64_t, 4> opcodes{};  ///< a bit for each; none: all
  uint64_t nth = 0;                   ///< only that one of those that match, from 1 on; 0: all
  uint64_t limit = 0;                 ///< no more than so many; 0: any number
  uint64_t delay_ns = 0, jitter_ns = 0;
  uint64_t seed = 0;

  bool matches(const PacketFacts& packet) const;
  /// Whether it means the packet that is number `number`, from 0 on, of those that match. Always the same for
  /// the same seed.
  bool picks(uint64_t number) const;
  friend bool operator==(const Rule&, const Rule&) = default;
};

/// The rules of a text; `seed`: of those that name none. EINVAL, with what is wrong in words.
Expected<std::vector<Rule>> parse_rules(std::string_view text, uint64_t seed);
/// A rule as text, which parses to the same.
std::string text_of(const Rule& rule);

/// What a datagram from the BTH on says; the source's number is known of datagrams and dynamic connections.
PacketFacts facts_of(std::span<const uint8_t> datagram, Direction direction);

}  // namespace verbatim::wire::tap
