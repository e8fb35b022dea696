// SPDX-License-Identifier: MIT
// Run with the library preloaded: what programs and the RDMA libraries get of SIGSEGV and SIGBUS.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>

#include "base/first_faults.h"

namespace verbatim {
namespace {

int first_calls = 0, program_calls = 0;
const FirstFaults* offered = nullptr;

void on_fault(int signal, siginfo_t*, void*) {
  first_calls++;
  struct sigaction next {};
  offered->program_action(signal, &next);
  if (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) next.sa_handler(signal);
}
void on_program_fault(int) { program_calls++; }

class Faults : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto claim = reinterpret_cast<ClaimFaults>(dlsym(RTLD_DEFAULT, kClaimFaults));
    ASSERT_NE(claim, nullptr) << "the library is not preloaded";
    struct sigaction first {};
    first.sa_sigaction = on_fault;
    first.sa_flags = SA_SIGINFO | SA_NODEFER;
    signal(SIGBUS, SIG_IGN);  // before the claim, kept by it
    offered = claim(&first);
    ASSERT_NE(offered, nullptr);
    EXPECT_EQ(claim(&first), nullptr) << "one claims";
  }
  void SetUp() override {
    ASSERT_NE(offered, nullptr);
    first_calls = program_calls = 0;
  }
  void TearDown() override { signal(SIGSEGV, SIG_DFL); }
  static bool kernel_still_has_the_first(int signal) {
    struct sigaction now {};
    return offered->kernel_action(signal, nullptr, &now) == 0 && now.sa_sigaction == on_fault;
  }
};

TEST_F(Faults, AProgramsHandlerComesSecond) {
  struct sigaction wanted {
  }, before{};
  wanted.sa_handler = on_program_fault;
  ASSERT_EQ(sigaction(SIGSEGV, &wanted, &before), 0);
  EXPECT_EQ(before.sa_handler, SIG_DFL);
  EXPECT_TRUE(kernel_still_has_the_first(SIGSEGV));
  raise(SIGSEGV);
  EXPECT_EQ(first_calls, 1);
  EXPECT_EQ(program_calls, 1);
  ASSERT_EQ(sigaction(SIGSEGV, nullptr, &before), 0);
  EXPECT_EQ(before.sa_handler, on_program_fault) << "the program sees what it has asked for";
}

TEST_F(Faults, OldCallsAreKeptToo) {
  EXPECT_EQ(signal(SIGSEGV, on_program_fault), SIG_DFL);
  EXPECT_EQ(signal(SIGSEGV, SIG_IGN), on_program_fault);
  EXPECT_EQ(__sysv_signal(SIGSEGV, on_program_fault), SIG_IGN);
  EXPECT_EQ(ssignal(SIGSEGV, SIG_DFL), on_program_fault);
  EXPECT_EQ(signal(SIGBUS, SIG_DFL), SIG_IGN);
  EXPECT_EQ(signal(SIGSEGV, SIG_ERR), SIG_ERR);
  EXPECT_TRUE(kernel_still_has_the_first(SIGSEGV));
  EXPECT_TRUE(kernel_still_has_the_first(SIGBUS));
  raise(SIGSEGV);
  EXPECT_EQ(first_calls, 1);
  EXPECT_EQ(program_calls, 0);
}

TEST_F(Faults, OtherSignalsAreTheKernels) {
  struct sigaction wanted {
  }, now{};
  wanted.sa_handler = on_program_fault;
  ASSERT_EQ(sigaction(SIGUSR1, &wanted, nullptr), 0);
  ASSERT_EQ(offered->kernel_action(SIGUSR1, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, on_program_fault);
  raise(SIGUSR1);
  EXPECT_EQ(program_calls, 1);
  EXPECT_EQ(first_calls, 0);
  EXPECT_EQ(sigaction(12345, &wanted, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbatim
