// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace verbatim::mlx5::devx {

/// The interrupt vectors of a context that programs poll as descriptors. Thread safe.
class Interrupts {
 public:
  /// A vector below `vectors` for the descriptor, which it owns from now on; 0: all are taken.
  uint32_t take(int fd, uint32_t vectors);
  /// Closes the descriptor; what event queues raise then goes nowhere. False: the vector is not taken.
  bool give_back(uint32_t vector);
  /// Never blocks; called with locks of the device held.
  void raise(uint32_t vector);

 private:
  std::mutex lock_;
  std::unordered_map<uint32_t, int> descriptors_;
};

}  // namespace verbatim::mlx5::devx
