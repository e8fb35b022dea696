// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/hw/hca.h"
#include "tests/fuzz/random.h"

namespace verbatim::fuzz {

/// Memory that a device may be told of.
struct Memory {
  static constexpr uint32_t kBytes = 64 << 10;
  std::byte* base = nullptr;
  hw::Mr* mr = nullptr;
  bool whole = true;  ///< all of it can be read and written
};

/// What a peer may be told of.
struct Target {
  uint64_t address = 0;
  uint32_t rkey = 0, qpn = 0;
};

/// Registered memory of every kind, most of which vanishes under the device's hands. The bytes around each
/// piece belong to nobody: the device must leave them alone. One thread.
class Memories {
 public:
  static constexpr uint32_t kCount = 6;

  Memories(hw::Hca& hca, hw::Pd* pd, Random& random);
  ~Memories();
  Memories(const Memories&) = delete;
  Memories& operator=(const Memories&) = delete;

  const std::vector<Memory>& all() const { return all_; }
  /// Any of them.
  const Memory& pick();
  /// One that is never disturbed, so that something can always be moved.
  const Memory& sound() const { return all_.front(); }
  /// Unmaps, protects, deregisters, registers again or changes one of the others.
  void disturb();
  Target target(uint32_t which, uint32_t qpn) const;
  /// A key that stands for others, as work requests say.
  uint32_t list_key() { return list_keys_[random_.below(kListKeys)] << 8; }
  /// Nothing was written around the pieces.
  bool surroundings_intact() const;

 private:
  static constexpr uint32_t kListKeys = 3, kListRoom = 64;
  void make_list_keys();
  hw::MrSpec spec_of(const Memory& memory, uint32_t access) const;
  void enroll(Memory& memory);

  hw::Hca& hca_;
  hw::Pd* const pd_;
  Random& random_;
  std::vector<Memory> all_;
  std::vector<uint32_t> list_keys_;  ///< their indices
};

}  // namespace verbatim::fuzz
