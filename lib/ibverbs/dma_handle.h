// SPDX-License-Identifier: MIT
#pragma once

#include "lib/ibverbs/provider.h"

namespace verbatim::verbs {

/// Hints for the device's bus transactions. The public part comes first.
struct DmaHandle {
  ibv_dmah base{};
  std::atomic<uint32_t> users{0};

  static DmaHandle* of(ibv_dmah* handle) { return reinterpret_cast<DmaHandle*>(handle); }
};

}  // namespace verbatim::verbs
