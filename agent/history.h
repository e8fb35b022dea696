// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace verbatim::agent {

/// An error reason as people read it.
struct Explanation {
  uint64_t time_ns = 0;  ///< CLOCK_REALTIME
  uint32_t pid = 0;
  uint32_t qpn = 0;
  uint32_t status = 0;  ///< engine::Status, or an errno value for refused commands
  std::string program;
  std::string text;
};

/// Reads the reasons out of a process's published memory file. Believes nothing: whatever is not whole is
/// left out.
std::vector<Explanation> read_reasons(int published_file, uint32_t pid);

/// The newest reasons of processes that have gone.
class History {
 public:
  void add(std::vector<Explanation> reasons);
  const Explanation* at(uint32_t index) const { return index < kept_.size() ? &kept_[index] : nullptr; }

 private:
  static constexpr size_t kMax = 1024;
  std::deque<Explanation> kept_;
};

}  // namespace verbatim::agent
