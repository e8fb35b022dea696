// SPDX-License-Identifier: MIT
#pragma once

// What the agent and its processes share of rules: the agent writes them, whoever sends packets counts. A
// process of the same user could scribble here; then rules do something else, and nothing worse.

#include <atomic>
#include <cstdint>
#include <vector>

#include "wire/link/tap/rule.h"
#include "wire/link/tap/switch.h"

namespace verbatim::wire::tap {

inline constexpr uint32_t kRulesMax = 64;

/// A rule in force, by the number that people know it by.
struct NumberedRule {
  uint32_t number = 0;
  Rule rule;
  uint64_t matched = 0, picked = 0;  ///< packets so far
};

struct Board {
  static constexpr uint64_t kMagic = 0x5645525441503031;
  uint64_t magic = kMagic;
  std::atomic<uint32_t> active;   ///< bits of Active
  std::atomic<uint32_t> edition;  ///< of the rules; odd while they change
  std::atomic<uint32_t> count;
  struct Entry {
    uint32_t number;
    Rule rule;
    std::atomic<uint64_t> matched, picked;
  } rules[kRulesMax];
  std::atomic<uint64_t> capture;  ///< the number of the one that runs; 0: none
  /// VERBATIM_INJECT as the agent found it: processes that have the same don't apply it once more.
  char environment[512];
  uint32_t environment_rules;  ///< up to that number they come from there
};

/// Puts these in the place of all rules. One caller at a time.
void write_rules(Board& board, const std::vector<NumberedRule>& rules);
/// Without a lock: while they are written, anything.
std::vector<NumberedRule> read_rules(const Board& board);

/// VERBATIM_INJECT; empty: it is not set.
std::string environment_text();
/// For rules that name no seed.
uint64_t random_seed();

}  // namespace verbatim::wire::tap
