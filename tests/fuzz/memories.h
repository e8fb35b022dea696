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
  uint32_t invalidatable = 0;  ///< a key that a send may invalidate
};

/// Registered memory of every kind, most of which vanishes under the device's hands. The bytes around each
/// piece belong to nobody: the device must leave them alone. One thread.
class Memories {
 public:
  static constexpr uint32_t kCount = 6;
  /// Keys that stand for others: which of them is which is in memories.cpp.
  static constexpr uint32_t kListKeys = 6, kInvalidatable = 1, kProtected = 3, kEncrypted = 4, kWindow = 5;
  static constexpr uint32_t kValues = 2;  ///< of signatures
  static constexpr uint32_t kTargets = kCount + kListKeys;

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
  /// One of kTargets: a piece of memory, or a key that stands for others.
  Target target(uint32_t which, uint32_t qpn) const;
  /// A key that stands for others, as work requests say.
  uint32_t list_key(uint32_t which) const { return list_keys_[which] << 8; }
  uint32_t list_key() { return list_key(random_.below(kListKeys)); }
  /// What signatures start from (PSV), and what data is encrypted with.
  uint32_t value(uint32_t which) const { return values_[which]; }
  uint32_t encryption_key() const { return encryption_key_; }
  /// Nothing was written around the pieces.
  bool surroundings_intact() const;

 private:
  void make_list_keys();
  void make_protection();
  void end_protection();
  hw::MrSpec spec_of(const Memory& memory, uint32_t access) const;
  void enroll(Memory& memory);

  hw::Hca& hca_;
  hw::Pd* const pd_;
  Random& random_;
  std::vector<Memory> all_;
  std::vector<uint32_t> list_keys_;  ///< their indices
  std::vector<uint32_t> values_;
  uint32_t encryption_key_ = 0;
};

}  // namespace verbatim::fuzz
