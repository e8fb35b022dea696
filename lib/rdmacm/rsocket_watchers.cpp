// SPDX-License-Identifier: MIT
#include "lib/rdmacm/rsocket_watchers.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace verbatim::rdmacm {
namespace {

struct Bell {
  int file = -1;
  pid_t process = 0;  ///< a child of a fork must not share the bell of its parent
  ~Bell() { close(); }
  void close() {
    if (file >= 0) ::close(file);
    file = -1;
  }
};

thread_local Bell own_bell;

}  // namespace

int bell_of_thread() {
  if (own_bell.file >= 0 && own_bell.process == ::getpid()) return own_bell.file;
  own_bell.close();
  own_bell.process = ::getpid();
  own_bell.file = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return own_bell.file;
}

void silence(int bell) {
  uint64_t rings;
  (void)!::read(bell, &rings, sizeof rings);
}

void Watchers::add(int bell) {
  const std::scoped_lock guard(lock_);
  bells_.push_back(bell);
  count_.store(static_cast<uint32_t>(bells_.size()), std::memory_order_seq_cst);
}

void Watchers::remove(int bell) {
  const std::scoped_lock guard(lock_);
  const auto found = std::find(bells_.begin(), bells_.end(), bell);
  if (found != bells_.end()) bells_.erase(found);
  count_.store(static_cast<uint32_t>(bells_.size()), std::memory_order_relaxed);
}

void Watchers::tell() {
  if (count_.load(std::memory_order_seq_cst) == 0) return;
  const uint64_t one = 1;
  const std::scoped_lock guard(lock_);
  for (const int bell : bells_)
    if (bell >= 0 && bell != own_bell.file) (void)!::write(bell, &one, sizeof one);
}

}  // namespace verbatim::rdmacm
