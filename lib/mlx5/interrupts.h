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
  /// 0, EBUSY event queues still use it, or EINVAL.
  int give_back(uint32_t vector);
  /// Event queues that use it.
  void count(uint32_t vector, int change);
  /// Never blocks; called with locks of the device held.
  void raise(uint32_t vector);

 private:
  struct Taken {
    int fd = -1;
    int queues = 0;
  };
  std::mutex lock_;
  std::unordered_map<uint32_t, Taken> taken_;
};

}  // namespace verbatim::mlx5::devx
