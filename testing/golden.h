// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "testing/hex.h"

namespace verbatim::testing {

/// A packet of tests/golden, IP header first.
struct Golden {
  std::string where;  ///< "rping.hex: frame 3"
  std::vector<uint8_t> bytes;
};

inline void read_golden_file(const std::filesystem::path& path, std::vector<Golden>& to) {
  std::ifstream file(path);
  std::string line, where, digits;
  const auto finish = [&] {
    if (!digits.empty()) to.push_back({path.filename().string() + ": " + where, from_hex(digits)});
    digits.clear();
  };
  while (std::getline(file, line)) {
    if (line.starts_with("# frame")) finish(), where = line.substr(2);
    if (!line.starts_with('#')) digits += line;
  }
  finish();
}

/// All of a folder's, in the order of their names.
inline std::vector<Golden> read_golden(const std::string& folder) {
  std::set<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".hex") paths.insert(entry.path());
  std::vector<Golden> packets;
  for (const auto& path : paths) read_golden_file(path, packets);
  return packets;
}

}  // namespace verbatim::testing
