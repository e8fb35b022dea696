// SPDX-License-Identifier: MIT
#include "base/spinlock.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace verbatim {

namespace {

constexpr int kSpinsBeforeSleep = 100;
constexpr timespec kLookAgain = {0, 50'000};

long futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, timeout, nullptr, 0);
}

}  // namespace

// Locks are taken inside handlers of faults, too, where errno is somebody else's.
void SpinLock::wait() {
  for (int spins = 0; spins < kSpinsBeforeSleep; spins++) {
    if (held_.load(std::memory_order_relaxed) == kFree) return;
    spin_pause();
  }
  const int error = errno;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (futex(&held_, FUTEX_WAIT, kHeld, &kLookAgain) != 0 && (errno == ENOSYS || errno == EPERM))
    sched_yield();
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  errno = error;
}

void SpinLock::wake(std::atomic<uint32_t>* word) {
  const int error = errno;
  (void)futex(word, FUTEX_WAKE, 1, nullptr);
  errno = error;
}

}  // namespace verbatim
