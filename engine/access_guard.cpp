// SPDX-License-Identifier: MIT
#include "engine/access_guard.h"

#include <sched.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "base/spinlock.h"

namespace verbatim::engine {

namespace {
constexpr int kSpinsBeforeYield = 200;
}

std::atomic<uint64_t> AccessGuard::epoch{1};
constinit thread_local AccessGuard::Reader* AccessGuard::mine = nullptr;

struct AccessGuard::Members {
  std::mutex lock;
  std::vector<std::unique_ptr<Reader>> readers;
};

/// Ends with its thread.
struct AccessGuard::Membership {
  Reader* reader = nullptr;
  __attribute__((no_sanitize("null"))) ~Membership() {
    Members& all = members();
    std::lock_guard<std::mutex> hold(all.lock);
    mine = nullptr;
    std::erase_if(all.readers, [this](const auto& each) { return each.get() == reader; });
  }
};

// Never destroyed: threads end after static objects do.
AccessGuard::Members& AccessGuard::members() {
  static Members* const all = new Members;
  return *all;
}

__attribute__((no_sanitize("null"))) AccessGuard::Reader& AccessGuard::admit() {
  static thread_local Membership membership;
  Members& all = members();
  std::lock_guard<std::mutex> hold(all.lock);
  all.readers.push_back(std::make_unique<Reader>());
  membership.reader = mine = all.readers.back().get();
  return *mine;
}

void AccessGuard::wait() {
  (void)heavy_fence();  // where the kernel refuses it, readers fence themselves
  Members& all = members();
  std::lock_guard<std::mutex> hold(all.lock);
  const uint64_t now = epoch.fetch_add(1, std::memory_order_seq_cst) + 1;
  for (const auto& reader : all.readers)
    for (int spins = 0;; spins++) {
      const uint64_t since = reader->since.load(std::memory_order_acquire);
      if (since == 0 || since >= now) break;
      spins < kSpinsBeforeYield ? spin_pause() : static_cast<void>(sched_yield());
    }
}

void AccessGuard::after_fork_child() {
  Members& all = members();
  new (&all.lock) std::mutex;  // a thread that is not here may have held it
  std::erase_if(all.readers, [](const auto& each) { return each.get() != mine; });
}

}  // namespace verbatim::engine
