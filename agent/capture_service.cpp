// SPDX-License-Identifier: MIT
#include "agent/capture_service.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace verbatim::agent {

Outcome CaptureService::begin(uint64_t client, int file) {
  if (file_ >= 0) {
    close(file);
    return Error{EBUSY, "another capture runs"};
  }
  const int kept = fcntl(file, F_DUPFD_CLOEXEC, 0);
  Outcome opened = kept < 0 ? Outcome(Error{errno, "the agent has no room for more open files"})
                            : tap_.recorder().open(file);
  if (kept < 0) close(file);
  if (!opened) {
    if (kept >= 0) close(kept);
    return opened;
  }
  client_ = client;
  file_ = kept;
  board_.capture.store(tap_.recorder().number(), std::memory_order_release);
  board_.active.fetch_or(wire::tap::kCaptures, std::memory_order_release);
  return Done{};
}

bool CaptureService::end(uint64_t client) {
  if (file_ < 0 || client != client_) return false;
  stop();
  return true;
}

void CaptureService::stop() {
  if (file_ < 0) return;
  board_.active.fetch_and(~uint32_t{wire::tap::kCaptures}, std::memory_order_release);
  board_.capture.store(0, std::memory_order_release);
  tap_.recorder().close();
  close(std::exchange(file_, -1));
}

}  // namespace verbatim::agent
