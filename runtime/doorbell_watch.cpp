// SPDX-License-Identifier: MIT
#include "runtime/doorbell_watch.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/fault_copy.h"
#include "base/trapped_memory.h"

namespace verbatim::runtime {

namespace {

/// Faults of user mode alone, which need no privilege. -1: not allowed here.
int open_guard() {
  const long fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
  if (fd < 0) return -1;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  if (ioctl(static_cast<int>(fd), UFFDIO_API, &api) == 0) return static_cast<int>(fd);
  close(static_cast<int>(fd));
  return -1;
}

uffdio_range range_of(const std::byte* page) {
  return {reinterpret_cast<uintptr_t>(page), DoorbellWatch::kPageBytes};
}

/// Whether something was stored. Out of the thread sanitizer's sight: it holds a lock of the word's while a
/// program's atomic store waits for the page to be writable again, which is what this is called for.
__attribute__((noinline, no_sanitize("thread"))) bool is_rung(const uint64_t* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0;
}

}  // namespace

DoorbellWatch::~DoorbellWatch() {
  unprotect();
  for (const Page& page : pages_) {
    end_store_trap(page.base);
    munmap(page.base, kPageBytes);
  }
  if (fd() >= 0) close(fd());
}

std::byte* DoorbellWatch::take_page() {
  // Populated: a page that is not there cannot be write-protected.
  void* mapped =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* page = static_cast<std::byte*>(mapped);
  {
    const std::lock_guard hold(lock_);
    pages_.push_back({page, nullptr, 0, {}});
    if (!trap(page) && !guard(page)) unguarded_ = true;
  }
  return page;
}

// With the lock held. The first page decides for all.
bool DoorbellWatch::trap(std::byte* page) {
  if (pages_.size() == 1) trapping_ = can_trap() && sees_faults_first();
  if (!trapping_) return false;
  if (trap_stores(page, *this)) return true;
  stop_trapping();
  return true;
}

// With the lock held.
void DoorbellWatch::stop_trapping() {
  trapping_ = false;
  for (const Page& page : pages_) {
    (void)mprotect(page.base, kPageBytes, PROT_READ | PROT_WRITE);
    if (!guard(page.base)) unguarded_ = true;
  }
}

// With the lock held.
bool DoorbellWatch::guard(std::byte* page) {
  if (fd() < 0 && !unguarded_) fd_ = open_guard();
  if (fd() < 0) return false;
  uffdio_register wanted{};
  wanted.range = range_of(page);
  wanted.mode = UFFDIO_REGISTER_MODE_WP;
  return ioctl(fd(), UFFDIO_REGISTER, &wanted) == 0 && (wanted.ioctls & 1ull << _UFFDIO_WRITEPROTECT) != 0;
}

void DoorbellWatch::give_back(std::byte* page) {
  end_store_trap(page);
  const std::lock_guard hold(lock_);
  std::erase_if(pages_, [page](const Page& each) { return each.base == page; });
  munmap(page, kPageBytes);
  count();
}

void DoorbellWatch::watch_registers(std::byte* page, std::span<const uint16_t> offsets, hw::Hca& hca,
                                    uint32_t number) {
  {
    const std::lock_guard hold(lock_);
    for (Page& each : pages_)
      if (each.base == page) each = {page, &hca, number, offsets};
    count();
  }
  wake_();  // it may be asleep without the page being protected
}

// With the lock held.
void DoorbellWatch::count() {
  const auto watched = std::count_if(pages_.begin(), pages_.end(), [](const Page& each) { return each.hca; });
  count_.store(static_cast<uint32_t>(entries_.size()) + static_cast<uint32_t>(watched),
               std::memory_order_relaxed);
}

bool DoorbellWatch::watch(const uint32_t* word, hw::Hca& hca, hw::Qp* qp) {
  return add({word, __atomic_load_n(word, __ATOMIC_ACQUIRE), &hca, qp, nullptr});
}

bool DoorbellWatch::watch(const uint32_t* word, hw::Hca& hca, hw::Cq* cq) {
  return add({word, __atomic_load_n(word, __ATOMIC_ACQUIRE), &hca, nullptr, cq});
}

bool DoorbellWatch::add(const Entry& entry) {
  {
    const std::lock_guard hold(lock_);
    for (const Entry& each : entries_)
      if (each.word == entry.word) return false;
    entries_.push_back(entry);
    count();
  }
  wake_();  // it may be asleep without the page being protected
  return true;
}

template <class Which>
void DoorbellWatch::erase(Which which) {
  const std::lock_guard hold(lock_);
  std::erase_if(entries_, which);
  count();
}

void DoorbellWatch::forget(const uint32_t* word) {
  erase([word](const Entry& each) { return each.word == word; });
}

void DoorbellWatch::forget_all(const hw::Hca& hca) {
  erase([&hca](const Entry& each) { return each.hca == &hca; });
  const std::lock_guard hold(lock_);
  for (Page& each : pages_)
    if (each.hca == &hca) each.hca = nullptr;
  count();
}

// With the lock held. True: something was stored. It stays where it is while the pages are protected: to
// clear it would be a store, too.
bool DoorbellWatch::look_at_registers() {
  bool rung = false;
  for (const Page& page : pages_) {
    if (page.hca == nullptr) continue;
    for (const uint16_t offset : page.offsets) {
      auto* word = reinterpret_cast<uint64_t*>(page.base + offset);
      if (!is_rung(word)) continue;
      rung = true;
      if (!protected_)
        page.hca->ring_register(page.number, offset, __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL));
    }
  }
  return rung;
}

// With the lock held by anybody.
bool DoorbellWatch::ring_moved() {
  bool rung = false;
  for (Entry& each : entries_) {
    const uint32_t now = __atomic_load_n(each.word, __ATOMIC_ACQUIRE);
    if (now == __atomic_load_n(&each.seen, __ATOMIC_RELAXED)) continue;
    __atomic_store_n(&each.seen, now, __ATOMIC_RELAXED);
    rung = true;
    if (each.qp != nullptr)
      each.hca->ring_send(each.qp);
    else
      each.hca->ring_arm(each.cq);
  }
  return rung;
}

bool DoorbellWatch::look() {
  if (!anything()) return false;
  const std::lock_guard hold(lock_);
  const bool stored = look_at_registers();
  return ring_moved() || stored;
}

void DoorbellWatch::on_store(std::byte* page, size_t offset, uint64_t value) {
  const uint32_t before = company_.before_ring();
  bool rung = false;
  {
    const std::shared_lock hold(lock_);
    const auto found =
        std::find_if(pages_.begin(), pages_.end(), [page](const Page& each) { return each.base == page; });
    rung =
        found != pages_.end() && found->hca != nullptr ? ring_register(*found, offset, value) : ring_moved();
  }
  if (rung) company_.after_ring(before);
}

// With the lock held by anybody. Entries that are written to the page as a whole store behind the register,
// too.
bool DoorbellWatch::ring_register(const Page& page, size_t offset, uint64_t value) {
  const auto at = static_cast<uint16_t>(offset & ~(kRegisterBytes - 1));
  if (std::find(page.offsets.begin(), page.offsets.end(), at) == page.offsets.end()) return false;
  page.hca->ring_register(page.number, at, value << 8 * (offset - at));
  return true;
}

void DoorbellWatch::on_opaque_store() {
  {
    const std::lock_guard hold(lock_);
    if (trapping_) stop_trapping();
  }
  wake_();  // it may be asleep without the pages being protected
}

bool DoorbellWatch::protect() {
  if (!anything()) return true;
  const std::lock_guard hold(lock_);
  protected_ = true;
  return set_protection(true) && !unguarded_;
}

void DoorbellWatch::unprotect() {
  const std::lock_guard hold(lock_);
  if (!protected_) return;
  protected_ = false;
  (void)set_protection(false);
}

// With the lock held. Taking the protection away wakes the threads that wait.
bool DoorbellWatch::set_protection(bool on) {
  if (fd() < 0) return false;
  bool done = true;
  for (const Page& page : pages_) {
    uffdio_writeprotect wanted{};
    wanted.range = range_of(page.base);
    wanted.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
    if (ioctl(fd(), UFFDIO_WRITEPROTECT, &wanted) != 0) done = false;
  }
  return done;
}

}  // namespace verbatim::runtime
