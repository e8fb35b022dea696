// SPDX-License-Identifier: MIT
#include "engine/gathering.h"

namespace verbatim::engine {

namespace {

constexpr uint32_t kHeldMax = 16;

struct Run {
  bool under_way;
  uint32_t count;
  Held* held[kHeldMax];
};
thread_local Run g_run{};

}  // namespace

void Gathering::begin() { g_run.under_way = true; }

void Gathering::end() {
  g_run.under_way = false;
  for (uint32_t i = 0; i < g_run.count; i++) g_run.held[i]->settle();
  g_run.count = 0;
}

bool Gathering::hold(Held& held) {
  if (!g_run.under_way || g_run.count == kHeldMax) return false;
  g_run.held[g_run.count++] = &held;
  return true;
}

}  // namespace verbatim::engine
