// SPDX-License-Identifier: MIT
#include "base/spinlock.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

namespace verbatim {
namespace {

uint64_t processor_time_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

TEST(SpinLock, LetsOneInAtATime) {
  constexpr int kThreads = 4, kTurns = 20'000;
  SpinLock lock;
  int turns = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++)
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; turn++) {
        const std::lock_guard hold(lock);
        turns++;
      }
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(turns, kThreads * kTurns);
}

TEST(SpinLock, LeavesTheProcessorToAHolderThatIsLate) {
  SpinLock lock;
  uint64_t spent_ns = 0;
  int error = 0;
  lock.lock();
  EXPECT_FALSE(lock.try_lock());
  std::thread waiter([&] {
    const uint64_t began_ns = processor_time_ns();
    errno = EXDEV;
    const std::lock_guard hold(lock);
    error = errno;
    spent_ns = processor_time_ns() - began_ns;
  });
  const timespec late = {0, 200'000'000};
  nanosleep(&late, nullptr);
  lock.unlock();
  waiter.join();
  EXPECT_LT(spent_ns, 100'000'000u);
  EXPECT_EQ(error, EXDEV);
}

TEST(SpinLock, TurnedOffHoldsNobodyBack) {
  SpinLock lock;
  lock.disable();
  lock.lock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

}  // namespace
}  // namespace verbatim
