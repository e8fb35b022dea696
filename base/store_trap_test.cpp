// SPDX-License-Identifier: MIT
#include "base/store_trap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/fault_copy.h"
#include "base/trapped_memory.h"

namespace verbatim {
namespace {

constexpr size_t kPage = 4096;

class Notes final : public StoreSink {
 public:
  void on_store(std::byte* page, size_t offset, uint64_t value) override {
    last_page = page;
    last_offset = offset;
    last_value = value;
    stores++;
    while (hold) sched_yield();
  }
  void on_opaque_store() override {
    opaque++;
    mprotect(opens, kPage, PROT_READ | PROT_WRITE);
  }
  std::byte* opens = nullptr;
  std::byte* last_page = nullptr;
  size_t last_offset = 0;
  uint64_t last_value = 0;
  std::atomic<int> stores{0}, opaque{0};
  std::atomic<bool> hold{false};
};

class StoreTraps : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_trap()) GTEST_SKIP() << "stores cannot be trapped on this processor";
    install_fault_guard();
    page_ = static_cast<std::byte*>(
        mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    notes_.opens = page_;
    const Outcome trapped = trap_stores(page_, notes_);
    ASSERT_TRUE(trapped) << trapped.error().reason;
  }
  void TearDown() override {
    if (page_ == nullptr) return;
    end_store_trap(page_);
    munmap(page_, kPage);
  }
  template <class T>
  volatile T& at(size_t offset) {
    return *reinterpret_cast<volatile T*>(page_ + offset);
  }
  template <class T>
  void store(size_t offset, T value) {
    const int before = notes_.stores;
    at<T>(offset) = value;
    EXPECT_EQ(notes_.stores, before + 1);
    EXPECT_EQ(notes_.last_page, page_);
    EXPECT_EQ(notes_.last_offset, offset);
    EXPECT_EQ(notes_.last_value, uint64_t{value});
    EXPECT_EQ(at<T>(offset), 0) << "memory keeps what it was";
  }

  Notes notes_;
  std::byte* page_ = nullptr;
};

TEST_F(StoreTraps, StoresOfAllSizesCall) {
  store<uint64_t>(0x800, 0x0123456789abcdef);
  store<uint32_t>(0x20, 0xdeadbeef);
  store<uint16_t>(2, 0xabcd);
  store<uint8_t>(4095, 0x7f);
}

#if defined(__x86_64__)

TEST_F(StoreTraps, AVectorGivesItsFirstBytes) {
  const uint64_t words[8] = {0x1112131415161718, 2, 3, 4, 5, 6, 7, 8};
  asm volatile("movdqu (%0), %%xmm9\n movups %%xmm9, 0x800(%1)" ::"r"(words), "r"(page_) : "xmm9", "memory");
  EXPECT_EQ(notes_.last_value, words[0]);
  EXPECT_EQ(notes_.last_offset, 0x800u);
  asm volatile("movdqu (%0), %%xmm1\n movntdq %%xmm1, 0x900(%1)" ::"r"(words + 2), "r"(page_)
               : "xmm1", "memory");
  EXPECT_EQ(notes_.last_value, 3u);
  asm volatile("movq (%0), %%xmm1\n movq %%xmm1, 0x40(%1)" ::"r"(words + 4), "r"(page_) : "xmm1", "memory");
  EXPECT_EQ(notes_.last_value, 5u);
  asm volatile("movq (%0), %%xmm1\n movss %%xmm1, 0x40(%1)" ::"r"(words), "r"(page_) : "xmm1", "memory");
  EXPECT_EQ(notes_.last_value, 0x15161718u);
  EXPECT_EQ(notes_.stores, 4);
}

TEST_F(StoreTraps, WiderVectorsToo) {
  const uint64_t words[8] = {0x1112131415161718, 2, 3, 4, 5, 6, 7, 8};
  if (__builtin_cpu_supports("avx")) {
    asm volatile("vmovdqu (%0), %%ymm12\n vmovups %%ymm12, 0x800(%1)\n vzeroupper" ::"r"(words), "r"(page_)
                 : "xmm12", "memory");
    EXPECT_EQ(notes_.last_value, words[0]);
    asm volatile("vmovdqu 32(%0), %%ymm3\n vmovdqu %%ymm3, (%1,%2,8)\n vzeroupper" ::"r"(words), "r"(page_),
                 "r"(size_t{0x100})
                 : "xmm3", "memory");
    EXPECT_EQ(notes_.last_value, 5u);
    EXPECT_EQ(notes_.last_offset, 0x800u);
  }
  if (__builtin_cpu_supports("avx512f")) {
    asm volatile("vmovdqu64 (%0), %%zmm5\n vmovdqu64 %%zmm5, 0x840(%1)\n vzeroupper" ::"r"(words), "r"(page_)
                 : "xmm5", "memory");
    EXPECT_EQ(notes_.last_value, words[0]);
    EXPECT_EQ(notes_.last_offset, 0x840u);
  }
}

// As a work queue entry is written to a register: one call, and the thread goes on behind all of it.
TEST_F(StoreTraps, ABurstCallsOnce) {
  const uint64_t words[2] = {7, 8};
  uint64_t after = 0;
  asm volatile(
      "movdqu (%1), %%xmm0\n"
      "movups %%xmm0, 0x800(%2)\n movaps %%xmm0, 0x810(%2)\n movups %%xmm0, 0x20(%2,%3)\n"
      "movdqu %%xmm0, 0x830(%2)\n mov $17, %0"
      : "=&r"(after)
      : "r"(words), "r"(page_), "r"(size_t{0x800})
      : "xmm0", "memory");
  EXPECT_EQ(notes_.stores, 1);
  EXPECT_EQ(after, 17u);
  asm volatile("movdqu (%0), %%xmm0\n movups %%xmm0, 0x800(%1)\n movups %%xmm0, 0x840(%1)" ::"r"(words),
               "r"(page_)
               : "xmm0", "memory");
  EXPECT_EQ(notes_.stores, 3) << "what goes to another place calls";
  if (__builtin_cpu_supports("avx512vl")) {
    asm volatile(
        "vmovdqu64 (%0), %%xmm17\n vmovdqu64 %%xmm17, 0x800(%1)\n vmovdqu64 %%xmm17, 0x10(%2)" ::"r"(words),
        "r"(page_), "r"(page_ + 0x800)
        : "memory");  // nothing else here uses xmm17
    EXPECT_EQ(notes_.stores, 4) << "displacements of one byte count in vectors";
    EXPECT_EQ(notes_.last_value, 0u) << "the upper registers are not looked for";
  }
}

TEST_F(StoreTraps, WhatCannotBeCarriedOutIsTriedAgain) {
  asm volatile("lock addl $5, 0x30(%0)" ::"r"(page_) : "memory");
  EXPECT_EQ(notes_.opaque, 1);
  EXPECT_EQ(at<uint32_t>(0x30), 5u);
  EXPECT_EQ(notes_.stores, 0);
}

TEST_F(StoreTraps, ASmallSignalStackIsNotUsed) {
  static char stack[16 * 1024];
  const stack_t small = {stack, 0, sizeof stack};
  ASSERT_EQ(sigaltstack(&small, nullptr), 0);
  at<uint64_t>(0x800) = 9;
  const stack_t none = {nullptr, SS_DISABLE, 0};
  sigaltstack(&none, nullptr);
  EXPECT_EQ(notes_.opaque, 1);
  EXPECT_EQ(at<uint64_t>(0x800), 9u);
}

#endif

TEST_F(StoreTraps, EndsWhenNobodyIsInside) {
  notes_.hold = true;
  std::thread storer([this] { at<uint64_t>(0x800) = 1; });
  while (notes_.stores == 0) sched_yield();
  std::atomic<bool> ended{false};
  std::thread ender([this, &ended] {
    end_store_trap(page_);
    ended = true;
  });
  for (int i = 0; i < 100; i++) {
    sched_yield();
    EXPECT_FALSE(ended);
  }
  notes_.hold = false;
  storer.join();
  ender.join();
  EXPECT_TRUE(ended);
}

TEST_F(StoreTraps, AChildStoresForItself) {
  const pid_t child = fork();
  if (child == 0) {
    forget_store_traps();
    at<uint64_t>(0x800) = 3;
    _exit(at<uint64_t>(0x800) == 3 && notes_.stores == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  store<uint64_t>(0x800, 4);
}

TEST_F(StoreTraps, PagesThatAreNotTrappedAreNone) {
  end_store_trap(page_);
  EXPECT_EXIT(at<uint64_t>(0) = 1, testing::KilledBySignal(SIGSEGV), "");
}

TEST(StoreTrapTable, IsFullOnce) {
  if (!can_trap()) GTEST_SKIP() << "stores cannot be trapped on this processor";
  Notes notes;
  std::vector<std::byte*> pages;
  auto* all = static_cast<std::byte*>(mmap(nullptr, (kStoreTrapsMax + 1) * kPage, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (size_t i = 0; i < kStoreTrapsMax; i++) ASSERT_TRUE(trap_stores(all + i * kPage, notes));
  const Outcome more = trap_stores(all + kStoreTrapsMax * kPage, notes);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ENOSPC);
  for (size_t i = 0; i < kStoreTrapsMax; i++) end_store_trap(all + i * kPage);
  munmap(all, (kStoreTrapsMax + 1) * kPage);
}

}  // namespace
}  // namespace verbatim
