// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim {

/// A range of this process's addresses that is mapped in one way.
struct Mapping {
  uint64_t first = 0, end = 0;  ///< end: the first address after it
  bool readable = false, writable = false;
  uint64_t inode = 0;  ///< of the file behind it; 0: none
  uint32_t device_major = 0, device_minor = 0;
};

/// Looks at the mappings of this process, as the kernel knows them. Async-signal-safe.
class ProcessMap {
 public:
  ProcessMap();
  ~ProcessMap();
  ProcessMap(const ProcessMap&) = delete;
  ProcessMap& operator=(const ProcessMap&) = delete;

  enum class Answer { kMapped, kUnmapped, kUnknown };
  /// The mapping that holds `address`. kUnknown: the kernel tells nothing here (no /proc).
  Answer find(uint64_t address, Mapping& found) const;

 private:
  int file_;
};

}  // namespace verbatim
