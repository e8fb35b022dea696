// SPDX-License-Identifier: MIT
#pragma once

#include "lib/ibverbs/provider.h"

namespace verbatim::verbs {

/// Device memory, which a provider allocates. The public part comes first.
struct DeviceMemory {
  ibv_dm base{};
  Context* context = nullptr;
  hw::Dm* device = nullptr;
  hw::DmKind kind{};
  bool detached = false;  ///< as hw::DmSpec
  bool shown = false;     ///< others find it by its handle

  static DeviceMemory* of(ibv_dm* dm) { return reinterpret_cast<DeviceMemory*>(dm); }
};

}  // namespace verbatim::verbs
