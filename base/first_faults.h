// SPDX-License-Identifier: MIT
#pragma once

#include <signal.h>

namespace verbatim {

/// What the library that `verbatim run` preloads offers to those that handle faults: to be asked first,
/// whatever handlers of SIGSEGV and SIGBUS the program installs before or after. A C interface between
/// libraries that are built together; found by dlsym().
struct FirstFaults {
  /// sigaction(2) itself, for what the kernel has.
  int (*kernel_action)(int signal, const struct sigaction* wanted, struct sigaction* before);
  /// What the program has asked for, of SIGSEGV or SIGBUS. Fit for a signal handler.
  void (*program_action)(int signal, struct sigaction* action);
};

/// Installs `first` for both signals. nullptr: somebody has claimed them before.
using ClaimFaults = const FirstFaults* (*)(const struct sigaction* first);
inline constexpr char kClaimFaults[] = "verbatim_claim_faults";

}  // namespace verbatim
