// SPDX-License-Identifier: MIT
#include "base/fault_copy.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

extern "C" __attribute__((weak)) void __sanitizer_set_report_path(const char* path);

namespace verbatim {
namespace {

constexpr size_t kPage = 4096;

class FaultCopy : public testing::Test {
 protected:
  void SetUp() override {
    install_fault_guard();
    refresh_fault_guard();
    area_ = static_cast<char*>(
        mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(area_, MAP_FAILED);
  }
  void TearDown() override { munmap(area_, 3 * kPage); }
  char* area_ = nullptr;
};

TEST_F(FaultCopy, CopiesEverySizeAtEveryAlignment) {
  std::vector<char> from(5000), to(5000);
  std::iota(from.begin(), from.end(), 1);
  for (size_t size = 0; size <= 300; size++)
    for (size_t offset = 0; offset < 9; offset++) {
      std::fill(to.begin(), to.end(), 0x5a);
      ASSERT_TRUE(fault_copy(to.data() + 16, from.data() + offset, size));
      ASSERT_EQ(0, memcmp(to.data() + 16, from.data() + offset, size)) << size;
      ASSERT_EQ(0x5a, to[15]);
      ASSERT_EQ(0x5a, to[16 + size]);
    }
  for (size_t size = 1000; size <= 1300; size++)
    for (size_t offset = 0; offset < 17; offset++) {
      std::fill(to.begin(), to.end(), 0x5a);
      ASSERT_TRUE(fault_copy(to.data() + 16 + offset, from.data(), size));
      ASSERT_EQ(0, memcmp(to.data() + 16 + offset, from.data(), size)) << size;
      ASSERT_EQ(0x5a, to[15 + offset]);
      ASSERT_EQ(0x5a, to[16 + offset + size]);
    }
  ASSERT_TRUE(fault_copy(to.data(), from.data(), 4999));
  EXPECT_EQ(0, memcmp(to.data(), from.data(), 4999));
}

TEST_F(FaultCopy, ReportsBadMemoryOnEitherSide) {
  char good[kPage] = {};
  munmap(area_ + kPage, kPage);
  for (size_t size : {1, 5, 12, 30, 100, 2000, 4096}) {
    EXPECT_FALSE(fault_copy(good, area_ + kPage, size)) << size;
    EXPECT_FALSE(fault_copy(area_ + kPage, good, size)) << size;
  }
  EXPECT_FALSE(fault_copy(good, area_ + kPage - 10, 100));
  EXPECT_TRUE(fault_copy(good, area_ + kPage - 100, 100));
  mmap(area_ + kPage, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  EXPECT_TRUE(fault_copy(good, area_ + kPage, 64));
  EXPECT_FALSE(fault_copy(area_ + kPage, good, 64));
  EXPECT_FALSE(fault_copy(good, nullptr, 8));
}

TEST_F(FaultCopy, ReportsAFileThatShrank) {
  const int file = memfd_create("shrinks", MFD_CLOEXEC);
  ASSERT_EQ(0, ftruncate(file, kPage));
  char* view = static_cast<char*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_EQ(0, ftruncate(file, 0));
  char good[64];
  EXPECT_FALSE(fault_copy(good, view, 64));
  munmap(view, kPage);
  close(file);
}

TEST_F(FaultCopy, AtomicsReportBadMemory) {
  uint64_t word = 40, old = 0;
  EXPECT_TRUE(fault_fetch_add(&word, 2, &old));
  EXPECT_EQ(40u, old);
  EXPECT_TRUE(fault_compare_swap(&word, 42, 7, &old));
  EXPECT_EQ(42u, old);
  EXPECT_EQ(7u, word);
  EXPECT_TRUE(fault_compare_swap(&word, 42, 8, &old));
  EXPECT_EQ(7u, word);
  mprotect(area_, kPage, PROT_READ);
  EXPECT_FALSE(fault_fetch_add(reinterpret_cast<uint64_t*>(area_), 1, &old));
  EXPECT_FALSE(fault_compare_swap(nullptr, 0, 1, &old));
}

void foreign_handler(int) {}

TEST_F(FaultCopy, WorksThroughTheKernelUnderAForeignHandler) {
  struct sigaction foreign {
  }, mine{};
  foreign.sa_handler = foreign_handler;
  sigaction(SIGSEGV, &foreign, &mine);
  refresh_fault_guard();
  char good[64];
  uint64_t word = 1, old = 0;
  EXPECT_FALSE(fault_copy(good, nullptr, 8));
  EXPECT_TRUE(fault_copy(good, area_, 8));
  EXPECT_TRUE(fault_fetch_add(&word, 2, &old));
  EXPECT_EQ(3u, word);
  mprotect(area_, kPage, PROT_READ);
  EXPECT_FALSE(fault_fetch_add(reinterpret_cast<uint64_t*>(area_), 1, &old));
  sigaction(SIGSEGV, &mine, nullptr);
  refresh_fault_guard();
}

bool forbid_process_vm_readv() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{4, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

TEST_F(FaultCopy, WorksWhereTheKernelForbidsCrossMemoryCopies) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, foreign_handler);
    refresh_fault_guard();
    if (!forbid_process_vm_readv()) _exit(9);
    std::vector<char> from(10000), to(10000);
    std::iota(from.begin(), from.end(), 3);
    munmap(area_ + kPage, kPage);
    uint64_t word = 4, old = 0;
    const bool good = fault_copy(to.data(), from.data(), from.size()) && from == to &&
                      fault_fetch_add(&word, 5, &old) && old == 4 && word == 9;
    const bool refused =
        !fault_copy(to.data(), nullptr, 8) && !fault_copy(area_ + kPage - 10, from.data(), 100) &&
        !fault_copy(to.data(), area_ + kPage - 10, 100) && !fault_fetch_add(nullptr, 1, &old);
    _exit(good ? (refused ? 0 : 2) : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 9) GTEST_SKIP() << "no filters here";
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(0, WEXITSTATUS(status));
}

TEST_F(FaultCopy, ThreadsFaultAtOnce) {
  mprotect(area_, kPage, PROT_NONE);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      char good[512] = {};
      for (size_t i = 1; i < 3000; i++) {
        wrong += fault_copy(good, area_ + i, i % 500 + 1);
        wrong += !fault_copy(area_ + 2 * kPage, good, 0);
        wrong += !fault_copy(good, area_ + kPage, i % 500);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(0, wrong);
}

// A handler that was there before the guard gets what is not the guard's, with its own mask in force.
char* trapped_page = nullptr;
bool signal_was_blocked = false;
void repair(int, siginfo_t* info, void*) {
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  signal_was_blocked = sigismember(&now, SIGSEGV) && sigismember(&now, SIGUSR1);
  if (info->si_addr == trapped_page) mprotect(trapped_page, kPage, PROT_READ | PROT_WRITE);
}

TEST(FaultGuard, HandsOtherFaultsToTheEarlierHandler) {
  // In a program of its own: the guard is installed once per process.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        struct sigaction action {};
        action.sa_sigaction = repair;
        action.sa_flags = SA_SIGINFO;
        sigaddset(&action.sa_mask, SIGUSR1);
        sigaction(SIGSEGV, &action, nullptr);
        install_fault_guard();
        trapped_page =
            static_cast<char*>(mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        char byte = 0;
        const bool refused = !fault_copy(&byte, trapped_page, 1);
        *static_cast<volatile char*>(trapped_page) = 5;
        const bool copied = fault_copy(&byte, trapped_page, 1);
        _exit(refused && copied && byte == 5 && signal_was_blocked ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(FaultGuard, AnIgnoredSignalThatIsSentStaysIgnored) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_IGN);
        install_fault_guard();
        raise(SIGSEGV);
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(FaultCopy, OtherFaultsStillKill) {
  const pid_t child = fork();
  if (child == 0) {
    // What a sanitizer says of it is no finding.
    if (__sanitizer_set_report_path) __sanitizer_set_report_path("stderr");
    volatile uintptr_t nowhere = 8;
    *reinterpret_cast<volatile char*>(nowhere) = 1;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  // A sanitizer's own handler, the earlier one, ends the process with an exit status instead.
  EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) != 0);
}

}  // namespace
}  // namespace verbatim
