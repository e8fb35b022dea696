// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>

#include "device/hw/hca.h"
#include "lib/ibverbs/public.h"

namespace verbatim::verbs {

/// Encryption or decryption that rules name.
struct EspFlowAction {
  ibv_flow_action base{};
  std::shared_ptr<hw::EspAction> device;
  std::atomic<uint32_t> flows{0};  ///< rules that use it

  static EspFlowAction* of(ibv_flow_action* action) { return reinterpret_cast<EspFlowAction*>(action); }
};

}  // namespace verbatim::verbs
