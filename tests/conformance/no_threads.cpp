// SPDX-License-Identifier: MIT
// A process that may have no more threads gets an errno value, and goes on.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <rdma/rdma_cma.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace verbatim::conformance {
namespace {

constexpr int kNoFilter = 77;

// clone3 keeps its flags in memory, where a filter does not see them: it is not there, and clone is asked.
bool forbid_threads() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof *program, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

/// The exit status of a process that does this without threads.
template <class Body>
int without_threads(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(forbid_threads() ? body() : kNoFilter);
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(NoThreads, OpeningADeviceFails) {
  const int status = without_threads([] {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) return 1;
    for (int tries = 0; tries < 2; tries++) {
      errno = 0;
      if (ibv_open_device(list[0]) != nullptr) return 2;
      if (errno != EAGAIN) return 3;
    }
    ibv_free_device_list(list);
    return 0;
  });
  if (status == kNoFilter) GTEST_SKIP() << "no filter may be put in force here";
  EXPECT_EQ(status, 0);
}

TEST(NoThreads, ConnectionsAreManagedAllTheSame) {
  const int status = without_threads([] {
    rdma_event_channel* channel = rdma_create_event_channel();
    if (channel == nullptr) return 1;
    for (int tries = 0; tries < 3; tries++) {
      rdma_cm_id* id = nullptr;
      if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) return 2;
      if (rdma_destroy_id(id) != 0) return 3;
    }
    rdma_destroy_event_channel(channel);
    return 0;
  });
  if (status == kNoFilter) GTEST_SKIP() << "no filter may be put in force here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace verbatim::conformance
