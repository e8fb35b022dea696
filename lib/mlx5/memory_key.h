// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "lib/mlx5/key_protection.h"
#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {

/// An indirect memory key that a program made. The public part comes first.
struct MemoryKey {
  mlx5dv_mkey shown{};
  verbs::Context* context = nullptr;
  uint32_t index = 0;  ///< the device's number of it; the program may change the low byte of the keys
  uint32_t room = 0;   ///< entries that its layout may have
  verbs::DomainUse domain_use;
  std::unique_ptr<KeySignatures> signatures;  ///< nullptr: made without
  std::unique_ptr<KeyEncryption> encryption;

  static MemoryKey* of(mlx5dv_mkey* key) { return reinterpret_cast<MemoryKey*>(key); }
};

// Of a memory key update under construction; see protection_builders.cpp.
void begin_protection(MemoryKey& key, const mlx5dv_mkey_conf_attr& wanted);
/// After its last setter: writes what protects the key, and ends the update and what belongs to it.
void finish_protection(QueuePair& qp);
void install_protection_builders(mlx5dv_qp_ex& ex);

// Making and destroying.
int make_protection(MemoryKey& key, uint32_t create_flags, uint32_t pd);
void unmake_protection(MemoryKey& key);
/// Whether errors of its signatures are noted, once it has its index.
void watch_signatures(MemoryKey& key, bool on);

}  // namespace verbatim::mlx5
