// SPDX-License-Identifier: MIT
// Reasons in words, kept where other processes can read them.
#include <cstdio>

#include "engine/engine.h"

namespace verbatim::engine {

void Engine::explain(uint32_t qpn, int status, uint64_t work, const char* text) {
  const uint64_t number = published_.header.reason_count.fetch_add(1, std::memory_order_acq_rel) + 1;
  Reason& entry = published_.reasons[(number - 1) % kReasonsMax];
  entry.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.time_ns = clock_.wall_ns();
  entry.qpn = qpn;
  entry.status = static_cast<uint32_t>(status);
  entry.work = work;
  std::snprintf(entry.text, sizeof entry.text, "%s", text);
  entry.number.store(number, std::memory_order_release);
  if (!explain_aloud_) return;
  if (qpn == 0)
    std::fprintf(stderr, "verbatim: %s\n", text);
  else
    std::fprintf(stderr, "verbatim: queue pair 0x%06x: %s\n", qpn, text);
}

}  // namespace verbatim::engine
