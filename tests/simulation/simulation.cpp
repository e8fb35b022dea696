// SPDX-License-Identifier: MIT
// Plays seeds of the simulated world (testing/simulation/world.h) and tells which of them fail, with a trace
// of the packets of the first that does.
//
// usage: simulation [--seeds N] [--first S] [--trace LINES]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "testing/simulation/world.h"

namespace {

using verbatim::simulation::Verdict;

struct Totals {
  uint64_t packets = 0, completed = 0, failed = 0, crashes = 0, digest = 0;
  void add(const Verdict& verdict) {
    packets += verdict.packets;
    completed += verdict.completed;
    failed += verdict.failed;
    crashes += verdict.crashes;
    digest = digest * 31 + verdict.digest;
  }
};

unsigned long long count(uint64_t value) { return value; }

void report(uint64_t seed, const Verdict& verdict, bool with_trace) {
  if (with_trace) std::fprintf(stderr, "%s\n", verdict.trace.c_str());
  std::fprintf(stderr, "seed %llu fails: %s", count(seed), verdict.finding.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seeds = 3000, first = 1, lines = 400;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t* value = std::strcmp(argv[i], "--seeds") == 0   ? &seeds
                      : std::strcmp(argv[i], "--first") == 0 ? &first
                      : std::strcmp(argv[i], "--trace") == 0 ? &lines
                                                             : nullptr;
    if (!value) {
      std::fprintf(stderr, "usage: simulation [--seeds N] [--first S] [--trace LINES]\n");
      return 2;
    }
    *value = std::strtoull(argv[i + 1], nullptr, 0);
  }
  Totals totals;
  uint64_t wrong = 0;
  for (uint64_t seed = first; seed < first + seeds; seed++) {
    const Verdict verdict = verbatim::simulation::play({seed, verbatim::simulation::Sabotage::kNone, lines});
    if (!verdict.passed) report(seed, verdict, wrong++ == 0);
    totals.add(verdict);
  }
  std::printf(
      "%llu seeds from %llu on: %llu fail; %llu packets, %llu messages, %llu ends of connections failed, "
      "%llu "
      "crashes, digest %016llx\n",
      count(seeds), count(first), count(wrong), count(totals.packets), count(totals.completed),
      count(totals.failed), count(totals.crashes), count(totals.digest));
  return wrong == 0 ? 0 : 1;
}
