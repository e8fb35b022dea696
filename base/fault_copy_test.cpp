// SPDX-License-Identifier: MIT
#include "base/fault_copy.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <vector>

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

TEST_F(FaultCopy, OtherFaultsStillKill) {
  const pid_t child = fork();
  if (child == 0) {
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
