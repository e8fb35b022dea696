// SPDX-License-Identifier: MIT
#include "base/store_trap.h"

#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "base/spinlock.h"
#include "base/trapped_instruction.h"

namespace verbatim {

namespace {

constexpr size_t kPageBytes = 4096;
constexpr unsigned kStoreBytesMax = 64;
constexpr uintptr_t kBurstBytes = 64;
/// A handler on a signal stack of the program's needs this much of it; on others there is room.
constexpr size_t kStackBytesMin = 64 * 1024;

struct StoreTrap {
  std::atomic<uintptr_t> page{0};
  std::atomic<StoreSink*> sink{nullptr};
  std::atomic<uint32_t> inside{0};  ///< threads in a call
};

std::array<StoreTrap, kStoreTrapsMax> traps;
std::atomic<size_t> used{0};  ///< those behind have never been
std::mutex changing;

StoreTrap* find(uintptr_t page) {
  const size_t count = used.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; i++)
    if (traps[i].page.load(std::memory_order_acquire) == page) return &traps[i];
  return nullptr;
}

bool stack_is_short(const ucontext_t& thread) {
  char here;
  const auto* base = static_cast<const char*>(thread.uc_stack.ss_sp);
  const auto depth = static_cast<size_t>(&here - base);
  return base != nullptr && depth < thread.uc_stack.ss_size && depth < kStackBytesMin;
}

/// Counts a thread into a trap, unless the trap has ended.
class Visit {
 public:
  Visit(StoreTrap& trap, uintptr_t page) : trap_(trap) {
    trap_.inside.fetch_add(1, std::memory_order_seq_cst);
    if (trap_.page.load(std::memory_order_seq_cst) == page) sink = trap_.sink.load();
  }
  ~Visit() { trap_.inside.fetch_sub(1, std::memory_order_release); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  StoreSink* sink = nullptr;

 private:
  StoreTrap& trap_;
};

/// A queue entry is written to a register as a burst of vector stores: the first has said all, and the others
/// would each cost a fault.
void skip_rest(ucontext_t& thread, uintptr_t burst) {
  for (unsigned i = 0; i < kBurstBytes / sizeof(uint64_t); i++) {
    TrappedInstruction next(thread);
    if (!next.read() || !next.stores_vector_to(burst, kBurstBytes)) return;
    next.finish({0, 0, true, 0}, 0);
  }
}

}  // namespace

Outcome trap_stores(std::byte* page, StoreSink& sink) {
  const std::lock_guard hold(changing);
  const auto address = reinterpret_cast<uintptr_t>(page);
  for (size_t i = 0; i < kStoreTrapsMax; i++) {
    if (traps[i].page.load() != 0) continue;
    traps[i].sink = &sink;
    traps[i].page = address;
    if (used.load() <= i) used.store(i + 1, std::memory_order_release);
    if (mprotect(page, kPageBytes, PROT_READ) == 0) return Done{};
    traps[i].page = 0;
    return Error{errno, "a page cannot be made read-only"};
  }
  return Error{ENOSPC, "stores to 1024 pages are trapped already"};
}

void end_store_trap(std::byte* page) {
  const std::lock_guard hold(changing);
  StoreTrap* trap = find(reinterpret_cast<uintptr_t>(page));
  if (trap == nullptr) return;
  trap->page.store(0, std::memory_order_seq_cst);
  while (trap->inside.load(std::memory_order_seq_cst) != 0) sched_yield();
}

void forget_store_traps() {
  for (StoreTrap& trap : traps) {
    const uintptr_t page = trap.page.exchange(0);
    trap.inside = 0;
    if (page != 0) (void)mprotect(reinterpret_cast<void*>(page), kPageBytes, PROT_READ | PROT_WRITE);
  }
}

bool carry_out_store(const siginfo_t& info, void* context) {
  if (info.si_code != SEGV_ACCERR || used.load(std::memory_order_relaxed) == 0) return false;
  const auto address = reinterpret_cast<uintptr_t>(info.si_addr);
  const uintptr_t page = address & ~(kPageBytes - 1);
  StoreTrap* trap = find(page);
  if (trap == nullptr) return false;
  Visit visit(*trap, page);
  if (visit.sink == nullptr) return true;  // it has ended meanwhile: the thread finds out what is there now
  auto& thread = *static_cast<ucontext_t*>(context);
  TrappedInstruction instruction(thread);
  TrappedAccess access;
  if (stack_is_short(thread) || !instruction.read() ||
      !instruction.access_at(address, kStoreBytesMax, access) || !access.store) {
    visit.sink->on_opaque_store();
    return true;
  }
  visit.sink->on_store(reinterpret_cast<std::byte*>(page), address - page, access.value);
  instruction.finish(access, 0);
  if (instruction.stores_vector()) skip_rest(thread, address & ~(kBurstBytes - 1));
  return true;
}

}  // namespace verbatim
