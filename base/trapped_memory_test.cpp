// SPDX-License-Identifier: MIT
#include "base/trapped_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/memory_instruction.h"
#include "base/process_map.h"

namespace verbatim {
namespace {

constexpr size_t kBytes = 8192;

/// Remembers the last access; loads read 0x8182838485868788 from its lowest byte on.
class Notes final : public Trap {
 public:
  uint64_t carry_out(const TrappedAccess& access) override {
    last = access;
    count++;
    return kRead;
  }
  static constexpr uint64_t kRead = 0x8182838485868788;
  TrappedAccess last;
  uint64_t count = 0;
};

class Trapped : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_trap()) GTEST_SKIP() << "accesses cannot be trapped on this processor";
    const auto made = map_trapped(kBytes, notes_);
    ASSERT_TRUE(made) << made.error().reason;
    base_ = static_cast<uint8_t*>(*made);
  }
  void TearDown() override {
    if (base_ != nullptr) munmap(base_, kBytes);
  }
  template <class T>
  volatile T& at(size_t offset) {
    return *reinterpret_cast<volatile T*>(base_ + offset);
  }
  template <class T>
  void stores_and_loads(size_t offset, T value) {
    at<T>(offset) = value;
    EXPECT_TRUE(notes_->last.store);
    EXPECT_EQ(notes_->last.offset, offset);
    EXPECT_EQ(notes_->last.bytes, sizeof(T));
    EXPECT_EQ(notes_->last.value, uint64_t{value});
    EXPECT_EQ(at<T>(offset), static_cast<T>(Notes::kRead));
    EXPECT_FALSE(notes_->last.store);
    EXPECT_EQ(notes_->last.bytes, sizeof(T));
  }

  std::shared_ptr<Notes> notes_ = std::make_shared<Notes>();
  uint8_t* base_ = nullptr;
};

TEST_F(Trapped, AccessesOfAllSizes) {
  stores_and_loads<uint8_t>(3, 0xab);
  stores_and_loads<uint16_t>(4094, 0xabcd);
  stores_and_loads<uint32_t>(8, 0xdeadbeef);
  stores_and_loads<uint64_t>(kBytes - 8, 0x0123456789abcdef);
  EXPECT_EQ(notes_->count, 8u);
}

TEST_F(Trapped, SignsAndConstants) {
  EXPECT_EQ(int64_t{at<int8_t>(0)}, static_cast<int8_t>(0x88));
  EXPECT_EQ(int64_t{at<int16_t>(0)}, static_cast<int16_t>(0x8788));
  EXPECT_EQ(int64_t{at<int32_t>(0)}, static_cast<int32_t>(0x85868788));
  at<int64_t>(0) = -2;
  EXPECT_EQ(notes_->last.value, ~uint64_t{1});
  at<uint16_t>(0) = 0x8001;
  EXPECT_EQ(notes_->last.value, 0x8001u);
}

// As the C library copies what is long, and what is short.
TEST_F(Trapped, CopiesByBytes) {
#if defined(__x86_64__)
  const char text[] = "abcde";
  void* to = base_ + 16;
  const void* from = text;
  size_t count = 5;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
  EXPECT_EQ(notes_->count, 5u);
  EXPECT_EQ(notes_->last.value, uint64_t{'e'});
  EXPECT_EQ(notes_->last.offset, 20u);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(to, base_ + 21);
  uint8_t here[4] = {};
  to = here, from = base_, count = 4;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
  for (const uint8_t each : here) EXPECT_EQ(each, 0x88);
  to = base_, count = 3;
  asm volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(7) : "memory");
  EXPECT_EQ(notes_->count, 12u);
  EXPECT_EQ(notes_->last.offset, 8u);
  EXPECT_EQ(notes_->last.value, 7u);
  uint64_t whole = 0x1111111111111111;
  asm volatile("movb (%1), %%bh\n mov %%rbx, %0" : "=r"(whole) : "r"(base_) : "rbx", "memory");
  EXPECT_EQ(whole >> 8 & 0xff, 0x88u);
#endif
}

TEST_F(Trapped, ThreadsTakeTurns) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([this] {
      for (int round = 0; round < 500; round++) __atomic_store_n(&at<uint32_t>(0), 1, __ATOMIC_RELAXED);
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(notes_->count, 2000u);
}

// What lies where addresses were trapped once meets the program's own fault.
TEST_F(Trapped, AddressesEndWithTheMapping) {
  const pid_t child = fork();
  if (child == 0) {
    munmap(base_, kBytes);
    void* other = mmap(base_, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    signal(SIGALRM, SIG_DFL);
    alarm(20);
    if (other == base_) at<uint8_t>(0) = 1;
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the store was taken for one of ours";
}

TEST_F(Trapped, ManyOneAfterTheOther) {
  const std::weak_ptr<Trap> kept = notes_;
  for (int i = 0; i < 3000; i++) {
    const auto made = map_trapped(4096, std::make_shared<Notes>());
    ASSERT_TRUE(made) << i << ": " << made.error().reason;
    munmap(*made, 4096);
  }
  at<uint8_t>(0) = 1;
  EXPECT_EQ(notes_->count, 1u);
}

TEST(MemoryInstructions, OthersAreNotTaken) {
  MemoryInstruction what;
  const uint8_t add[] = {0x01, 0x07}, exchange[] = {0x87, 0x07}, vector[] = {0x0f, 0x10, 0x07};
  const uint8_t between[] = {0x89, 0xc7}, locked[] = {0xf0, 0x89, 0x07};
  for (const uint8_t* code : {add, exchange, vector, between, locked})
    EXPECT_FALSE(decode_memory_instruction(code, what));
  const uint8_t indexed[] = {0x48, 0xc7, 0x84, 0xb3, 1, 2, 3, 4, 0xfe, 0xff, 0xff, 0xff};
  ASSERT_TRUE(decode_memory_instruction(indexed, what));
  EXPECT_EQ(what.length, sizeof indexed);
  EXPECT_EQ(what.constant, ~uint64_t{1});
  EXPECT_EQ(what.bytes, 8);
  EXPECT_EQ(what.base, 3);
  EXPECT_EQ(what.index, 6);
  EXPECT_EQ(what.scale, 2);
  EXPECT_EQ(what.displacement, 0x04030201);
}

#if defined(__x86_64__)
// Its value is not what an operation could be carried out with.
TEST_F(Trapped, VectorsAreRefused) {
  EXPECT_EXIT(asm volatile("pxor %%xmm0, %%xmm0\n movups %%xmm0, (%0)" ::"r"(base_)
                           : "xmm0", "memory"),
              testing::KilledBySignal(SIGSEGV), "");
}
#endif

TEST(ProcessMaps, TellWhatIsMapped) {
  const ProcessMap map;
  Mapping found;
  void* page = mmap(nullptr, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto first = reinterpret_cast<uint64_t>(page);
  munmap(static_cast<char*>(page) + 4096, 4096);
  ASSERT_EQ(map.find(first + 100, found), ProcessMap::Answer::kMapped);
  EXPECT_EQ(found.end, first + 4096);
  EXPECT_TRUE(found.readable);
  EXPECT_FALSE(found.writable);
  EXPECT_EQ(found.inode, 0u);
  EXPECT_EQ(map.find(first + 4096, found), ProcessMap::Answer::kUnmapped);
  ASSERT_EQ(map.find(reinterpret_cast<uint64_t>(&can_trap), found), ProcessMap::Answer::kMapped);
  EXPECT_NE(found.inode, 0u);
  munmap(page, 4096);
  munmap(static_cast<char*>(page) + 8192, 4096);
}

}  // namespace
}  // namespace verbatim
