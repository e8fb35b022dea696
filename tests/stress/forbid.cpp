// SPDX-License-Identifier: MIT
#include "tests/stress/forbid.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/stress/rig.h"

namespace verbatim::stress {

namespace {

// Whoever may trace everybody may also reach those that are not dumpable.
void drop_trace_capability() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2];
  require(syscall(SYS_capget, &header, sets) == 0, "capget");
  sets[0].effective &= ~(1u << CAP_SYS_PTRACE);
  sets[0].permitted &= ~(1u << CAP_SYS_PTRACE);
  sets[0].inheritable &= ~(1u << CAP_SYS_PTRACE);
  require(syscall(SYS_capset, &header, sets) == 0, "capset");
}

void install_filter() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{sizeof program / sizeof *program, program};
  require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
  require(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0, "seccomp");
}

}  // namespace

Forbid forbid_named(const char* name) {
  const std::string text = name;
  if (text == "none") return Forbid::kNothing;
  if (text == "env") return Forbid::kByWish;
  if (text == "dumpable") return Forbid::kUndumpable;
  if (text == "seccomp") return Forbid::kSeccomp;
  fail("no way to forbid cross-memory attach is called %s", name);
}

void forbid_cross_memory(Forbid how) {
  switch (how) {
    case Forbid::kNothing:
      return;
    case Forbid::kByWish:
      setenv("VERBATIM_NO_CMA", "1", 1);
      return;
    case Forbid::kUndumpable:
      drop_trace_capability();
      require(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "PR_SET_DUMPABLE");
      return;
    case Forbid::kSeccomp:
      install_filter();
  }
}

}  // namespace verbatim::stress
