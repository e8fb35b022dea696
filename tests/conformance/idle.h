// SPDX-License-Identifier: MIT
#pragma once

// What a process uses while it does nothing.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbatim::conformance {

/// Processor time of this process so far, seconds.
inline double processor_seconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Whether the engine thread can sleep on a store.
inline bool stores_can_wake() {
  const long fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  if (fd >= 0) close(static_cast<int>(fd));
  return fd >= 0;
}

}  // namespace verbatim::conformance
