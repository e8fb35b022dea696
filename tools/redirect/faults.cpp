// SPDX-License-Identifier: MIT
// SIGSEGV and SIGBUS, once the RDMA libraries have claimed them: what the program installs then is kept here,
// and those libraries call it for the faults that are none of theirs.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>

#include "base/first_faults.h"
#include "tools/redirect/next.h"

using verbatim::FirstFaults;
using verbatim::redirect::g_next;

namespace {

std::atomic<bool> claimed{false};
std::atomic_flag busy = ATOMIC_FLAG_INIT;
struct sigaction wanted_segv, wanted_bus;

struct sigaction& wanted_of(int signal) {
  return signal == SIGBUS ? wanted_bus : wanted_segv;
}

bool is_kept_here(int signal) {
  return (signal == SIGSEGV || signal == SIGBUS) && claimed.load(std::memory_order_acquire);
}

/// Held with all signals blocked: a handler may want it.
class Hold {
 public:
  Hold() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
    while (busy.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Hold() {
    busy.clear(std::memory_order_release);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
};

int exchange(int signal, const struct sigaction* wanted, struct sigaction* before) {
  // The caller's memory is touched without the lock.
  struct sigaction now {};
  if (wanted != nullptr) now = *wanted;
  struct sigaction was;
  {
    const Hold hold;
    was = wanted_of(signal);
    if (wanted != nullptr) wanted_of(signal) = now;
  }
  if (before != nullptr) *before = was;
  return 0;
}

int kernel_action(int signal, const struct sigaction* wanted, struct sigaction* before) {
  return g_next.sigaction(signal, wanted, before);
}

void program_action(int signal, struct sigaction* action) { exchange(signal, nullptr, action); }

sighandler_t install(int signal, sighandler_t handler, int flags, sighandler_t (*next)(int, sighandler_t)) {
  if (!is_kept_here(signal)) return next(signal, handler);
  if (handler == SIG_ERR) {
    errno = EINVAL;
    return SIG_ERR;
  }
  struct sigaction wanted {
  }, before{};
  wanted.sa_handler = handler;
  wanted.sa_flags = flags;
  if ((flags & SA_NODEFER) == 0) sigaddset(&wanted.sa_mask, signal);
  exchange(signal, &wanted, &before);
  return before.sa_handler;
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

const FirstFaults* verbatim_claim_faults(const struct sigaction* first) {
  static const FirstFaults offered = {kernel_action, program_action};
  if (claimed.load(std::memory_order_acquire)) return nullptr;
  if (g_next.sigaction(SIGSEGV, first, &wanted_segv) != 0 ||
      g_next.sigaction(SIGBUS, first, &wanted_bus) != 0)
    return nullptr;
  claimed.store(true, std::memory_order_release);
  return &offered;
}

int sigaction(int signal, const struct sigaction* wanted, struct sigaction* before) noexcept {
  return is_kept_here(signal) ? exchange(signal, wanted, before) : g_next.sigaction(signal, wanted, before);
}
int __sigaction(int signal, const struct sigaction* wanted, struct sigaction* before) {
  return sigaction(signal, wanted, before);
}
sighandler_t signal(int signal, sighandler_t handler) noexcept {
  return install(signal, handler, SA_RESTART, g_next.signal);
}
sighandler_t ssignal(int signal, sighandler_t handler) noexcept {
  return install(signal, handler, SA_RESTART, g_next.signal);
}
sighandler_t __sysv_signal(int signal, sighandler_t handler) noexcept {
  return install(signal, handler, static_cast<int>(SA_RESETHAND | SA_NODEFER), g_next.sysv_signal);
}
sighandler_t sysv_signal(int signal, sighandler_t handler) noexcept { return __sysv_signal(signal, handler); }

}  // extern "C"

#pragma GCC visibility pop
