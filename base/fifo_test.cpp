// SPDX-License-Identifier: MIT
#include "base/fifo.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

namespace verbatim {

TEST(Fifo, HoldsWhatADequeHolds) {
  Fifo<int> fifo;
  std::deque<int> deque;
  uint32_t state = 1;
  for (int i = 0; i < 10000; i++) {
    state = state * 1664525 + 1013904223;
    const uint32_t what = state >> 16 & 0xff;
    if (deque.empty() || what < 140) {
      fifo.push_back(i);
      deque.push_back(i);
    } else if (what < 230) {
      fifo.pop_front();
      deque.pop_front();
    } else if (what < 255) {
      fifo.pop_back();
      deque.pop_back();
    } else {
      fifo.clear();
      deque.clear();
    }
    ASSERT_EQ(deque.size(), fifo.size());
    ASSERT_EQ(deque.empty(), fifo.empty());
    ASSERT_TRUE(std::equal(deque.begin(), deque.end(), fifo.begin(), fifo.end()));
    if (deque.empty()) continue;
    ASSERT_EQ(deque.front(), fifo.front());
    ASSERT_EQ(deque.back(), fifo.back());
  }
}

TEST(Fifo, LetsGoOfWhatHasLeft) {
  Fifo<std::shared_ptr<int>> fifo;
  const auto first = std::make_shared<int>(1);
  fifo.push_back(first);
  fifo.push_back(std::make_shared<int>(2));
  fifo.pop_front();
  EXPECT_EQ(1, first.use_count());
  EXPECT_EQ(2, *fifo.front());
}

}  // namespace verbatim
