// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbatim {

/// Seeded numbers (splitmix64). One thread.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t x = state_;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  }
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(next() % bound); }
  /// From `least` to `most`, both included.
  uint32_t between(uint32_t least, uint32_t most) { return least + below(most - least + 1); }
  bool one_in(uint32_t n) { return below(n) == 0; }
  /// True so many times in a million.
  bool per_million(uint32_t times) { return below(1'000'000) < times; }
  void fill(void* to, size_t bytes) {
    for (size_t done = 0; done < bytes; done += 8) {
      const uint64_t word = next();
      std::memcpy(static_cast<char*>(to) + done, &word, std::min<size_t>(8, bytes - done));
    }
  }

 private:
  uint64_t state_;
};

}  // namespace verbatim
