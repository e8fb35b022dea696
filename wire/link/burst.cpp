// SPDX-License-Identifier: MIT
#include "wire/link/burst.h"

#include <utility>

namespace verbatim::wire {

namespace {
thread_local Burst::State g_state{};
}

Burst::Burst() : state_(g_state) { state_.depth++; }

Burst::~Burst() {
  if (--state_.depth == 0 && state_.held) std::exchange(state_.held, nullptr)->let_go();
}

bool Burst::hold(HeldBack& held) {
  State& state = g_state;
  if (state.depth == 0) return false;
  state.held = &held;
  return true;
}

}  // namespace verbatim::wire
