// SPDX-License-Identifier: MIT
#include "base/restarting_signals.h"

#include <signal.h>

#include <algorithm>
#include <iterator>

namespace verbatim {

bool signals_restart_calls() {
  constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
  for (int signal = 1; signal <= SIGRTMAX; signal++) {
    struct sigaction action {};
    if (std::find(std::begin(kFaults), std::end(kFaults), signal) != std::end(kFaults)) continue;
    if (sigaction(signal, nullptr, &action) != 0) continue;
    const bool handled =
        (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
    if (handled && (action.sa_flags & SA_RESTART) == 0) return false;
  }
  return true;
}

}  // namespace verbatim
