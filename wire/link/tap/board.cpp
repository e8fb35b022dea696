// SPDX-License-Identifier: MIT
#include "wire/link/tap/board.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdlib>

namespace verbatim::wire::tap {

namespace {

uint32_t active_bits(const std::vector<NumberedRule>& rules) {
  uint32_t bits = 0;
  for (const NumberedRule& each : rules) {
    if (each.rule.directions & 1u << static_cast<unsigned>(Direction::kOut)) bits |= kInjectsOut;
    if (each.rule.directions & 1u << static_cast<unsigned>(Direction::kIn)) bits |= kInjectsIn;
  }
  return bits;
}

}  // namespace

void write_rules(Board& board, const std::vector<NumberedRule>& rules) {
  const auto count = static_cast<uint32_t>(std::min<size_t>(rules.size(), kRulesMax));
  board.edition.fetch_add(1, std::memory_order_acq_rel);
  for (uint32_t i = 0; i < count; i++) {
    Board::Entry& entry = board.rules[i];
    entry.number = rules[i].number;
    entry.rule = rules[i].rule;
    entry.matched.store(rules[i].matched, std::memory_order_relaxed);
    entry.picked.store(rules[i].picked, std::memory_order_relaxed);
  }
  board.count.store(count, std::memory_order_relaxed);
  board.edition.fetch_add(1, std::memory_order_acq_rel);
  const uint32_t bits = active_bits(rules);
  board.active.fetch_or(bits, std::memory_order_release);
  board.active.fetch_and(bits | ~kInjects, std::memory_order_release);
}

std::vector<NumberedRule> read_rules(const Board& board) {
  std::vector<NumberedRule> rules;
  const uint32_t count = std::min(board.count.load(std::memory_order_acquire), kRulesMax);
  for (uint32_t i = 0; i < count; i++) {
    const Board::Entry& entry = board.rules[i];
    rules.push_back({entry.number, entry.rule, entry.matched.load(std::memory_order_relaxed),
                     entry.picked.load(std::memory_order_relaxed)});
  }
  return rules;
}

std::string environment_text() {
  const char* set = std::getenv("VERBATIM_INJECT");
  return set ? set : "";
}

// Short enough for people to type it.
uint64_t random_seed() {
  uint32_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 1;
  return seed;
}

}  // namespace verbatim::wire::tap
