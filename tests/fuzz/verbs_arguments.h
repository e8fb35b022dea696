// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tests/fuzz/random.h"

namespace verbatim::fuzz {

/// Memory that arguments point into: some to read and write, some to read, and behind it a wide range without
/// pages, so that lengths may be as wrong as they like and still meet nothing of the process's own.
class Arena {
 public:
  static constexpr size_t kBytes = 1 << 20, kReadOnlyBytes = 1 << 16;

  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::byte* begin() const { return begin_; }
  std::byte* read_only() const { return begin_ + kBytes; }
  std::byte* hole() const { return begin_ + 2 * kBytes; }

 private:
  std::byte* begin_;
};

/// Makes arguments: sensible ones, and in some calls one here and there that is not.
class Arguments {
 public:
  Arguments(uint64_t seed, const Arena& arena) : random(seed), arena_(arena) {}

  /// Before each call.
  void next(bool calm = false) { wild_ = !calm && random.one_in(2); }
  /// Whether this argument is to be nonsense.
  bool odd() { return wild_ && random.one_in(10); }

  /// A number, or one at the edges of its type.
  template <class T>
  T number(T sensible) {
    return odd() ? edge<T>() : sensible;
  }
  /// Some of the flags that there are, or of all.
  uint32_t bits(uint32_t known) {
    return static_cast<uint32_t>(random.next()) & (odd() ? UINT32_MAX : known);
  }
  /// The object, or none.
  template <class T>
  T* handle(T* sensible) {
    return odd() ? nullptr : sensible;
  }
  /// Entries of a queue: few, none or far too many.
  uint32_t entries();
  /// Elements of a request.
  uint32_t elements() { return number<uint32_t>(random.below(5)); }
  /// A value of an enumeration whose known ones end before `end`.
  template <class T>
  T one_of(uint32_t end) {
    return static_cast<T>(number<int>(static_cast<int>(random.below(end))));
  }

  void* address();
  size_t length();
  /// Where a region of that memory begins for those who name it.
  uint64_t iova(const void* address);
  /// Memory that the call itself reads or writes: the program's own business to be right.
  std::byte* sound(size_t bytes) {
    return arena_.begin() + random.below(static_cast<uint32_t>(Arena::kBytes - bytes));
  }

  Random random;

 private:
  template <class T>
  T edge() {
    using Bits = std::make_unsigned_t<T>;
    switch (random.below(7)) {
      case 0:
        return 0;
      case 1:
        return 1;
      case 2:
        return static_cast<T>(~Bits{0});
      case 3:
        return std::numeric_limits<T>::max();
      case 4:
        return std::numeric_limits<T>::min();
      case 5:
        return static_cast<T>(Bits{1} << random.below(std::numeric_limits<Bits>::digits));
      default:
        return static_cast<T>(random.next());
    }
  }

  const Arena& arena_;
  bool wild_ = false;
};

}  // namespace verbatim::fuzz
