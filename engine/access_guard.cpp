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
constexpr int kSpinsForOthers = 400;
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

bool AccessGuard::inside_since(const Reader& reader, uint64_t period) {
  const uint64_t since = reader.since.load(std::memory_order_acquire);
  return since != 0 && since < period;
}

uint64_t AccessGuard::begin() {
  (void)heavy_fence();  // where the kernel refuses it, readers fence themselves
  return epoch.fetch_add(1, std::memory_order_seq_cst) + 1;
}

void AccessGuard::wait() {
  const uint64_t now = begin();
  Members& all = members();
  std::lock_guard<std::mutex> hold(all.lock);
  for (const auto& reader : all.readers)
    for (int spins = 0; inside_since(*reader, now); spins++)
      spins < kSpinsBeforeYield ? spin_pause() : static_cast<void>(sched_yield());
}

// Whoever holds the lock may be waiting for the caller.
bool AccessGuard::passed(uint64_t begun) {
  Members& all = members();
  const std::unique_lock<std::mutex> hold(all.lock, std::try_to_lock);
  return hold && std::none_of(all.readers.begin(), all.readers.end(),
                              [begun](const auto& reader) { return inside_since(*reader, begun); });
}

bool AccessGuard::wait_for_others() {
  const uint64_t now = begin();
  Members& all = members();
  const std::unique_lock<std::mutex> hold(all.lock, std::try_to_lock);
  if (!hold) return false;
  for (const auto& reader : all.readers)
    for (int spins = 0; reader.get() != mine && inside_since(*reader, now); spins++) {
      if (spins == kSpinsForOthers) return false;
      spin_pause();
    }
  return true;
}

void AccessGuard::after_fork_child() {
  Members& all = members();
  new (&all.lock) std::mutex;  // a thread that is not here may have held it
  std::erase_if(all.readers, [](const auto& each) { return each.get() != mine; });
}

}  // namespace verbatim::engine
