// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::engine {

/// Which bit of a byte goes into a CRC first, and lies at which end of it.
enum class BitOrder : uint8_t { kHighestFirst, kLowestFirst };

/// A CRC over an unsigned type's width, eight bytes at a time, each through the table of its distance from
/// the last. `kPolynomial` has its highest term left out and is mirrored where the lowest bit goes first.
/// Nothing is complemented.
template <class T, T kPolynomial, BitOrder kOrder>
class Crc {
 public:
  static T run(T crc, std::span<const uint8_t> data) {
    size_t i = 0;
    for (; i + kAtOnce <= data.size(); i += kAtOnce) {
      T next = 0;
      for (size_t byte = 0; byte < kAtOnce; byte++)
        next ^= kTables[kAtOnce - 1 - byte][at(crc, byte) ^ data[i + byte]];
      crc = next;
    }
    for (; i < data.size(); i++) crc = step(crc, data[i]);
    return crc;
  }

 private:
  static constexpr size_t kAtOnce = 8;
  static constexpr unsigned kBits = sizeof(T) * 8;
  static constexpr bool kLow = kOrder == BitOrder::kLowestFirst;
  using Tables = std::array<std::array<T, 256>, kAtOnce>;

  /// The byte of a CRC that the n-th byte of data meets; no more than the CRC has.
  static constexpr uint8_t at(T crc, size_t n) {
    if (n >= sizeof(T)) return 0;
    return static_cast<uint8_t>(crc >> (kLow ? 8 * n : kBits - 8 - 8 * n));
  }
  static constexpr T without_first(T crc) {
    if constexpr (sizeof(T) == 1) return 0;
    return static_cast<T>(kLow ? crc >> 8 : crc << 8);
  }
  static T step(T crc, uint8_t byte) { return without_first(crc) ^ kTables[0][at(crc, 0) ^ byte]; }

  static constexpr T of_byte(uint8_t byte) {
    constexpr T kEnd = kLow ? T{1} : static_cast<T>(T{1} << (kBits - 1));
    T crc = static_cast<T>(kLow ? T{byte} : static_cast<T>(T{byte} << (kBits - 8)));
    for (int bit = 0; bit < 8; bit++) {
      const bool out = (crc & kEnd) != 0;
      crc = static_cast<T>(kLow ? crc >> 1 : crc << 1);
      if (out) crc ^= kPolynomial;
    }
    return crc;
  }
  static constexpr Tables make() {
    Tables tables{};
    for (uint32_t byte = 0; byte < 256; byte++) tables[0][byte] = of_byte(static_cast<uint8_t>(byte));
    for (size_t distance = 1; distance < kAtOnce; distance++)
      for (uint32_t byte = 0; byte < 256; byte++) {
        const T before = tables[distance - 1][byte];
        tables[distance][byte] = static_cast<T>(without_first(before) ^ tables[0][at(before, 0)]);
      }
    return tables;
  }
  static constexpr Tables kTables = make();
};

using Crc16T10 = Crc<uint16_t, 0x8bb7, BitOrder::kHighestFirst>;
using Crc32 = Crc<uint32_t, 0x04c11db7, BitOrder::kHighestFirst>;
using Crc32Castagnoli = Crc<uint32_t, 0x82f63b78, BitOrder::kLowestFirst>;
using Crc64Xp10 = Crc<uint64_t, 0x9a6c9329ac4bc9b5, BitOrder::kLowestFirst>;

}  // namespace verbatim::engine
