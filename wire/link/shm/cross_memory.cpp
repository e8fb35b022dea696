// SPDX-License-Identifier: MIT
#include "wire/link/shm/cross_memory.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace verbatim::wire::shm {

namespace {

using Move = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

// What a device moves is the program's memory, and whether the program touches it meanwhile is the program's
// affair, as with hardware. So the thread sanitizer hears of these copies as little as of those in
// base/fault_copy.cpp: it knows the calls of the C library, not the kernel's.
#if defined(__SANITIZE_THREAD__)
ssize_t vm_read(pid_t pid, const iovec* here, unsigned long here_count, const iovec* there,
                unsigned long there_count, unsigned long flags) {
  return syscall(SYS_process_vm_readv, pid, here, here_count, there, there_count, flags);
}
ssize_t vm_write(pid_t pid, const iovec* here, unsigned long here_count, const iovec* there,
                 unsigned long there_count, unsigned long flags) {
  return syscall(SYS_process_vm_writev, pid, here, here_count, there, there_count, flags);
}
#else
constexpr Move vm_read = process_vm_readv;
constexpr Move vm_write = process_vm_writev;
#endif

/// A position in a list of pieces that hands out what is left as iovecs.
struct Cursor {
  const Piece* pieces;
  uint32_t count;
  uint32_t at = 0;
  size_t offset = 0;

  uint32_t fill(iovec* out, uint32_t most) const {
    uint32_t made = 0;
    for (uint32_t i = at; i < count && made < most; i++) {
      const size_t skip = i == at ? offset : 0;
      if (pieces[i].length > skip)
        out[made++] = {static_cast<char*>(pieces[i].base) + skip, pieces[i].length - skip};
    }
    return made;
  }
  void advance(size_t bytes) {
    while (at < count && bytes >= pieces[at].length - offset) {
      bytes -= pieces[at].length - offset;
      at++;
      offset = 0;
    }
    offset += bytes;
  }
};

CrossResult move_all(Move move, uint32_t pid, Cursor here, Cursor there) {
  constexpr uint32_t kVectors = kPiecesMax;
  for (;;) {
    iovec mine[kVectors], theirs[kVectors];
    const uint32_t mine_count = here.fill(mine, kVectors), theirs_count = there.fill(theirs, kVectors);
    if (mine_count == 0 || theirs_count == 0)
      return mine_count == theirs_count ? CrossResult::kDone : CrossResult::kFault;
    const ssize_t moved = move(static_cast<pid_t>(pid), mine, mine_count, theirs, theirs_count, 0);
    if (moved < 0)
      return errno == EFAULT || errno == EINVAL || errno == ENOMEM ? CrossResult::kFault
                                                                   : CrossResult::kForbidden;
    if (moved == 0) return CrossResult::kFault;
    here.advance(static_cast<size_t>(moved));
    there.advance(static_cast<size_t>(moved));
  }
}

}  // namespace

CrossResult read_from(uint32_t pid, const Piece* here, uint32_t here_count, const Piece* there,
                      uint32_t there_count) {
  return move_all(vm_read, pid, {here, here_count}, {there, there_count});
}

CrossResult write_to(uint32_t pid, const Piece* here, uint32_t here_count, const Piece* there,
                     uint32_t there_count) {
  return move_all(vm_write, pid, {here, here_count}, {there, there_count});
}

void consent_to_peers() {
  const int file = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  char scope = '0';
  if (read(file, &scope, 1) == 1 && scope == '1') prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  close(file);
}

bool cross_memory_wanted() {
  const char* off = std::getenv("VERBATIM_NO_CMA");
  return !off || !*off || *off == '0';
}

}  // namespace verbatim::wire::shm
