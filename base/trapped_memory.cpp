// SPDX-License-Identifier: MIT
//
// Nothing tells that a program has unmapped its addresses, and others may lie there since: before an access
// is carried out, and before addresses are forgotten, the kernel is asked whether the mapping there is still
// the one of the file made for this.
#include "base/trapped_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <vector>

#include "base/fault_copy.h"
#include "base/memory_instruction.h"
#include "base/process_map.h"
#include "base/spinlock.h"

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

#if defined(__x86_64__)

using Kind = MemoryInstruction::Kind;

greg_t& register_of(ucontext_t& thread, unsigned number) {
  static constexpr int kPlaces[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return thread.uc_mcontext.gregs[kPlaces[number & 15]];
}

uint64_t low(uint64_t value, unsigned bytes) {
  return bytes == 8 ? value : value & ((uint64_t{1} << 8 * bytes) - 1);
}

uint64_t extended(uint64_t value, unsigned bytes) {
  const unsigned shift = 64 - 8 * bytes;
  return static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
}

/// The register that a load or a store names; where a byte of it has a number of its own, that byte.
uint64_t read_register(ucontext_t& thread, const MemoryInstruction& what) {
  if (what.high_byte) return low(static_cast<uint64_t>(register_of(thread, what.reg - 4u)) >> 8, 1);
  return low(static_cast<uint64_t>(register_of(thread, what.reg)), what.bytes);
}

/// Half of a register that is written clears the other half; less leaves the rest as it is.
void write_register(ucontext_t& thread, unsigned number, unsigned bytes, bool high_byte, uint64_t value) {
  greg_t& place = register_of(thread, high_byte ? number - 4 : number);
  const auto before = static_cast<uint64_t>(place);
  const uint64_t wanted = low(value, bytes);
  if (bytes >= 4)
    place = static_cast<greg_t>(wanted);
  else if (high_byte)
    place = static_cast<greg_t>((before & ~uint64_t{0xff00}) | wanted << 8);
  else
    place = static_cast<greg_t>((before - low(before, bytes)) | wanted);
}

uint64_t read_plainly(uintptr_t address, unsigned bytes) {
  uint64_t value = 0;
  auto* to = reinterpret_cast<volatile uint8_t*>(&value);
  const auto* from = reinterpret_cast<const volatile uint8_t*>(address);
  for (unsigned i = 0; i < bytes; i++) to[i] = from[i];
  return value;
}

void write_plainly(uintptr_t address, unsigned bytes, uint64_t value) {
  auto* to = reinterpret_cast<volatile uint8_t*>(address);
  for (unsigned i = 0; i < bytes; i++) to[i] = static_cast<uint8_t>(value >> 8 * i);
}

bool is_string(Kind kind) { return kind == Kind::kCopy || kind == Kind::kFill || kind == Kind::kFetch; }

/// One step of a string operation has been made.
void step(ucontext_t& thread, const MemoryInstruction& what) {
  auto* registers = thread.uc_mcontext.gregs;
  constexpr greg_t kDirection = 0x400;
  const greg_t by = (registers[REG_EFL] & kDirection) != 0 ? -greg_t{what.bytes} : greg_t{what.bytes};
  if (what.kind != Kind::kFetch) registers[REG_RDI] += by;
  if (what.kind != Kind::kFill) registers[REG_RSI] += by;
  if (what.repeated && --registers[REG_RCX] != 0) return;  // the instruction goes on
  registers[REG_RIP] += what.length;
}

/// What the access does, other than where the trap is in the way: the value that a store has.
bool make_access(ucontext_t& thread, const MemoryInstruction& what, uintptr_t address,
                 TrappedAccess& access) {
  auto* registers = thread.uc_mcontext.gregs;
  access.bytes = what.bytes;
  access.store = what.kind == Kind::kStore || what.kind == Kind::kStoreConstant || what.kind == Kind::kFill ||
                 (what.kind == Kind::kCopy && address == static_cast<uintptr_t>(registers[REG_RDI]));
  switch (what.kind) {
    case Kind::kStore:
      access.value = read_register(thread, what);
      break;
    case Kind::kStoreConstant:
      access.value = low(what.constant, what.bytes);
      break;
    case Kind::kFill:
      access.value = low(static_cast<uint64_t>(registers[REG_RAX]), what.bytes);
      break;
    case Kind::kCopy:
      // May be trapped, too: then this thread's handler runs within itself.
      if (access.store) access.value = read_plainly(static_cast<uintptr_t>(registers[REG_RSI]), what.bytes);
      break;
    case Kind::kLoad:
    case Kind::kFetch:
      break;
  }
  return !is_string(what.kind) || !what.repeated || registers[REG_RCX] != 0;
}

void take_result(ucontext_t& thread, const MemoryInstruction& what, const TrappedAccess& access,
                 uint64_t value) {
  if (access.store) return;
  if (what.kind == Kind::kLoad)
    write_register(thread, what.reg, what.to_bytes, what.high_byte,
                   what.sign ? extended(value, what.bytes) : low(value, what.bytes));
  else if (what.kind == Kind::kFetch)
    write_register(thread, 0, what.bytes, false, value);
  else
    write_plainly(static_cast<uintptr_t>(thread.uc_mcontext.gregs[REG_RDI]), what.bytes, value);
}

#endif

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
#if defined(__x86_64__)
  Registry* all = registry.load(std::memory_order_acquire);
  if (all == nullptr || info.si_code != SEGV_ACCERR) return false;
  auto& thread = *static_cast<ucontext_t*>(context);
  const auto address = reinterpret_cast<uintptr_t>(info.si_addr);
  {
    const WithoutSignals quiet;
    const std::lock_guard hold(all->lock);
    if (all->find(address) == nullptr) return false;
  }
  MemoryInstruction what;
  const auto* code = reinterpret_cast<const uint8_t*>(thread.uc_mcontext.gregs[REG_RIP]);
  if (!all->is_ours(address) || !decode_memory_instruction(code, what)) return false;
  TrappedAccess access;
  if (!make_access(thread, what, address, access)) return false;
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
  take_result(thread, what, access, value);
  if (is_string(what.kind))
    step(thread, what);
  else
    thread.uc_mcontext.gregs[REG_RIP] += what.length;
  return true;
#else
  (void)info;
  (void)context;
  return false;
#endif
}

}  // namespace verbatim
