// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace verbatim {

/// Numbers of one kind of object, no two of live objects equal: 1 to 2^24 - 1 unless said otherwise. One that
/// is given back rests for a while, so that what is late for its old owner finds nobody.
class NumberSpace {
 public:
  explicit NumberSpace(uint32_t first = 1, uint32_t last = 0xffffff) : next_(first), last_(last) {}
  /// 0: all are taken.
  uint32_t take() {
    if (free_.size() > kRestingMax || (next_ > last_ && !free_.empty())) {
      const uint32_t number = free_.front();
      free_.pop_front();
      return number;
    }
    return next_ <= last_ ? next_++ : 0;
  }
  void give_back(uint32_t number) { free_.push_back(number); }

 private:
  static constexpr size_t kRestingMax = 1024;
  uint32_t next_;
  uint32_t last_;
  std::deque<uint32_t> free_;
};

}  // namespace verbatim
