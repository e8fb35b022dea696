// SPDX-License-Identifier: MIT
#pragma once

#include "lib/ibverbs/provider.h"

namespace verbatim::verbs {

/// Completion channel. The public part comes first; its reference count is guarded by the context's mutex.
struct Channel {
  ibv_comp_channel base{};
  EventQueue events;

  static Channel* of(ibv_comp_channel* channel) { return reinterpret_cast<Channel*>(channel); }
};

}  // namespace verbatim::verbs
