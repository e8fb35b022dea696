// SPDX-License-Identifier: MIT
#pragma once

#include "lib/ibverbs/counters.h"
#include "lib/ibverbs/flow_action.h"
#include "lib/ibverbs/provider.h"

namespace verbatim::verbs {

/// A rule as a program describes it, and what it uses of the program's objects.
struct FlowWish {
  hw::FlowRule rule;
  Counters* counters = nullptr;
  EspFlowAction* action = nullptr;
};

/// Reads a rule with all its specifications. Code 0, or why a ConnectX refuses it.
Error read_flow(const Context& context, const ibv_flow_attr& attributes, FlowWish& wish);

}  // namespace verbatim::verbs
