// SPDX-License-Identifier: MIT
#pragma once

// What all programs that fuzz take from their command line, and how long they go on.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>

namespace verbatim::fuzz {

inline double now_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

/// [--seconds N] [--first SEED] [--seed SEED], and words that a program knows itself.
class Options {
 public:
  Options(int argc, char** argv, double seconds) : argc_(argc), argv_(argv), seconds_(seconds) {
    if (const char* given = value("--seconds")) seconds_ = std::atof(given);
    if (const char* given = value("--first")) first_ = std::strtoull(given, nullptr, 0);
    if (const char* given = value("--seed")) only_ = std::strtoull(given, nullptr, 0);
  }
  bool has(const char* word) const {
    for (int i = 1; i < argc_; i++)
      if (std::strcmp(argv_[i], word) == 0) return true;
    return false;
  }

  /// Calls `run(seed)` with seeds that count up, for so long, or with the one that was named; how many. The
  /// first one is printed, so that a failure can be had again.
  template <class Run>
  uint64_t play(const char* name, Run run) const {
    const uint64_t by_time = static_cast<uint64_t>(time(nullptr)) * 1'000'000'000;
    const uint64_t seed = only_.value_or(first_.value_or(by_time));
    std::printf("%s: first seed %llu\n", name, static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    uint64_t cases = 0;
    const double began = now_s();
    do run(seed + cases++);
    while (!only_ && now_s() - began < seconds_);
    return cases;
  }

 private:
  const char* value(const char* word) const {
    for (int i = 1; i + 1 < argc_; i++)
      if (std::strcmp(argv_[i], word) == 0) return argv_[i + 1];
    return nullptr;
  }

  const int argc_;
  char** const argv_;
  double seconds_;
  std::optional<uint64_t> first_, only_;
};

}  // namespace verbatim::fuzz
