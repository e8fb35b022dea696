// SPDX-License-Identifier: MIT
#include "lib/rdmacm/handover.h"

#include <ctime>

#include "lib/rdmacm/id.h"

namespace verbatim::rdmacm {

void Handover::await() {
  constexpr timespec kPause = {0, 50'000};
  constexpr int kLooks = 1000;
  const uint32_t child = child_.exchange(0, std::memory_order_relaxed);
  if (child == 0 || vain_.load(std::memory_order_relaxed) >= kVainMax) return;
  for (int look = 0; look < kLooks; look++) {
    if (!IdTable::of_process().is_untouched(child)) {
      vain_.store(0, std::memory_order_relaxed);
      return;
    }
    nanosleep(&kPause, nullptr);
  }
  vain_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace verbatim::rdmacm
