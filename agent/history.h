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
  friend auto operator<=>(const Explanation&, const Explanation&) = default;
};

/// Reads the reasons out of a process's published memory file. Believes nothing: whatever is not whole is
/// left out.
std::vector<Explanation> read_reasons(int published_file, uint32_t pid);

/// The newest reasons of processes that have gone. They are also kept in a file, because people ask after the
/// last program, and with it the agent, has ended.
class History {
 public:
  static constexpr size_t kMax = 1024;
  /// Goes on with what `path` holds. Empty: no file.
  explicit History(std::string path);
  void add(std::vector<Explanation> reasons);
  const Explanation* at(uint32_t index) const { return index < kept_.size() ? &kept_[index] : nullptr; }

 private:
  void store() const;

  const std::string path_;
  std::deque<Explanation> kept_;
};

/// Where the agent of that name keeps its history in this network namespace: in the user's runtime folder,
/// else in one of its own under /tmp. Empty: there is no folder that nobody else can write to.
std::string history_path(const std::string& agent);

/// What such a file holds, oldest first; nothing when it is somebody else's or not in order.
std::vector<Explanation> load_history(const std::string& path);

}  // namespace verbatim::agent
