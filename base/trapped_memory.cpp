// SPDX-License-Identifier: MIT
//
// Nothing tells that a program has unmapped its addresses, and others may lie there since: before an access
// is carried out, and before addresses are forgotten, the kernel is asked whether the mapping there is still
// the one of the file made for this.
#include "base/trapped_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <vector>

#include "base/fault_copy.h"
#include "base/process_map.h"
#include "base/spinlock.h"
#include "base/trapped_instruction.h"

namespace verbatim {

namespace {

constexpr size_t kTrapsMax = 1024;

struct Trapped {
  uintptr_t first = 0;
  size_t bytes = 0;  ///< 0: unused
  std::shared_ptr<Trap> trap;
};

/// All trapped addresses of the process. The lock is held with signals blocked: a handler may want it.
struct Registry {
  SpinLock lock;
  int file = -1;
  uint64_t inode = 0;
  uint32_t device_major = 0, device_minor = 0;
  std::array<Trapped, kTrapsMax> traps;

  bool is_ours(uintptr_t address) const {
    const ProcessMap map;
    Mapping mapping;
    switch (map.find(address, mapping)) {
      case ProcessMap::Answer::kUnknown:
        return true;
      case ProcessMap::Answer::kUnmapped:
        return false;
      case ProcessMap::Answer::kMapped:
        break;
    }
    return mapping.inode == inode && mapping.device_major == device_major &&
           mapping.device_minor == device_minor;
  }
  Trapped* find(uintptr_t address) {
    for (Trapped& each : traps)
      if (address - each.first < each.bytes) return &each;
    return nullptr;
  }
};

std::atomic<Registry*> registry{nullptr};  // lives as long as the process

class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    // A fault of our own must still be seen.
    for (const int signal : {SIGSEGV, SIGBUS}) sigdelset(&all, signal);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_;
};

Expected<Registry*> the_registry() {
  static std::mutex making;
  const std::lock_guard hold(making);
  if (Registry* made = registry.load()) return made;
  auto made = std::make_unique<Registry>();
  made->file = memfd_create("verbatim-operations", MFD_CLOEXEC);
  struct stat about {};
  if (made->file < 0 || fstat(made->file, &about) != 0)
    return Error{errno, "there is no file to map the addresses of operations from"};
  made->inode = about.st_ino;
  made->device_major = major(about.st_dev);
  made->device_minor = minor(about.st_dev);
  registry.store(made.get());
  return made.release();
}

/// Takes out what the program has unmapped, and what lies in the way of [first, first + bytes).
std::vector<std::shared_ptr<Trap>> forget_stale(Registry& all, uintptr_t first, size_t bytes) {
  std::vector<std::shared_ptr<Trap>> gone;
  gone.reserve(kTrapsMax);
  const WithoutSignals quiet;
  const std::lock_guard hold(all.lock);
  for (Trapped& each : all.traps) {
    if (each.bytes == 0) continue;
    const bool overlaps = each.first < first + bytes && first < each.first + each.bytes;
    if (!overlaps && all.is_ours(each.first)) continue;
    gone.push_back(std::move(each.trap));
    each = {};
  }
  return gone;
}

}  // namespace

bool can_trap() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

Expected<void*> map_trapped(size_t bytes, std::shared_ptr<Trap> trap) {
  if (!can_trap()) return Error{EOPNOTSUPP, "accesses cannot be trapped on this processor"};
  install_fault_guard();
  refresh_fault_guard();
  if (!fault_guard_works())
    return Error{EOPNOTSUPP, "the program handles SIGSEGV by itself, so that accesses cannot be trapped"};
  const Expected<Registry*> all = the_registry();
  if (!all) return all.error();
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  void* made = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, (*all)->file, 0);
  if (made == MAP_FAILED) return Error{ENOMEM, "there are no addresses left to trap"};
  const auto first = reinterpret_cast<uintptr_t>(made);
  const auto gone = forget_stale(**all, first, bytes);
  const WithoutSignals quiet;
  const std::lock_guard hold((*all)->lock);
  for (Trapped& each : (*all)->traps) {
    if (each.bytes != 0) continue;
    each = {first, bytes, std::move(trap)};
    return made;
  }
  munmap(made, bytes);
  return Error{ENOMEM, "1024 mappings are trapped already"};
}

bool carry_out_trapped(const siginfo_t& info, void* context) {
  Registry* all = registry.load(std::memory_order_acquire);
  if (all == nullptr || info.si_code != SEGV_ACCERR) return false;
  const auto address = reinterpret_cast<uintptr_t>(info.si_addr);
  {
    const WithoutSignals quiet;
    const std::lock_guard hold(all->lock);
    if (all->find(address) == nullptr) return false;
  }
  TrappedInstruction instruction(*static_cast<ucontext_t*>(context));
  if (!all->is_ours(address) || !instruction.read() || instruction.stores_vector()) return false;
  TrappedAccess access;
  if (!instruction.access_at(address, sizeof access.value, access)) return false;
  uint64_t value = 0;
  {
    const WithoutSignals quiet;
    const std::lock_guard hold(all->lock);
    const Trapped* found = all->find(address);
    if (found == nullptr) return false;
    access.offset = address - found->first;
    if (access.bytes > found->bytes - access.offset) return false;
    value = found->trap->carry_out(access);
  }
  instruction.finish(access, value);
  return true;
}

}  // namespace verbatim
