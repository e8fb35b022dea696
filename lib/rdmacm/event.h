// SPDX-License-Identifier: MIT
#pragma once

#include "lib/rdmacm/id.h"

namespace verbatim::rdmacm {

/// An event as the program has it. The public part comes first.
struct Event {
  rdma_cm_event base{};
  uint8_t private_data[agent::cm::kPrivateDataMax];
  Id* counted = nullptr;  ///< whose acknowledgement it takes: the listener's for a request
  Membership* membership = nullptr;

  static Event* of(rdma_cm_event* event) { return reinterpret_cast<Event*>(event); }
};

}  // namespace verbatim::rdmacm
