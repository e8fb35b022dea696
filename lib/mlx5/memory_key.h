// SPDX-License-Identifier: MIT
#pragma once

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {

/// An indirect memory key that a program made. The public part comes first.
struct MemoryKey {
  mlx5dv_mkey shown{};
  verbs::Context* context = nullptr;
  uint32_t index = 0;  ///< the device's number of it; the program may change the low byte of the keys
  uint32_t room = 0;   ///< entries that its layout may have
  verbs::DomainUse domain_use;

  static MemoryKey* of(mlx5dv_mkey* key) { return reinterpret_cast<MemoryKey*>(key); }
};

}  // namespace verbatim::mlx5
