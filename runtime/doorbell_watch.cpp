// SPDX-License-Identifier: MIT
#include "runtime/doorbell_watch.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

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

}  // namespace

DoorbellWatch::~DoorbellWatch() {
  unprotect();
  for (const Page& page : pages_) munmap(page.base, kPageBytes);
  if (fd() >= 0) close(fd());
}

std::byte* DoorbellWatch::take_page() {
  // Populated: a page that is not there cannot be write-protected.
  void* mapped =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* page = static_cast<std::byte*>(mapped);
  {
    const std::lock_guard guard_entries(lock_);
    if (!guard(page)) unguarded_ = true;
    pages_.push_back({page, nullptr, 0, {}});
  }
  return page;
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
      if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) continue;
      rung = true;
      if (!protected_)
        page.hca->ring_register(page.number, offset, __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL));
    }
  }
  return rung;
}

bool DoorbellWatch::look() {
  if (!anything()) return false;
  const std::lock_guard hold(lock_);
  bool rung = look_at_registers();
  for (Entry& each : entries_) {
    const uint32_t now = __atomic_load_n(each.word, __ATOMIC_ACQUIRE);
    if (now == each.seen) continue;
    each.seen = now;
    rung = true;
    if (each.qp != nullptr)
      each.hca->ring_send(each.qp);
    else
      each.hca->ring_arm(each.cq);
  }
  return rung;
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
