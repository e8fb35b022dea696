// SPDX-License-Identifier: MIT
#include "wire/format/crc32.h"

#include <atomic>
#include <cstring>

#include "base/fault_copy.h"
#include "wire/format/crc32_tables.h"

namespace verbatim::roce {

namespace crc32 {

namespace {

/// tables[i][b]: what the byte b does to the state that has i bytes behind it.
struct Tables {
  uint32_t of[8][256];

  constexpr Tables() : of{} {
    for (uint32_t byte = 0; byte < 256; byte++) {
      uint32_t state = byte;
      for (auto& table : of) {
        for (int bit = 0; bit < 8; bit++) state = times_x(state);
        table[byte] = state;
      }
    }
  }
};

constexpr Tables kTables;

}  // namespace

uint32_t update_by_table(uint32_t state, const uint8_t* bytes, size_t count) {
  const auto& t = kTables.of;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint32_t low, high;
    std::memcpy(&low, bytes, 4);
    std::memcpy(&high, bytes + 4, 4);
    low ^= state;
    state = t[7][low & 255] ^ t[6][low >> 8 & 255] ^ t[5][low >> 16 & 255] ^ t[4][low >> 24] ^
            t[3][high & 255] ^ t[2][high >> 8 & 255] ^ t[1][high >> 16 & 255] ^ t[0][high >> 24];
  }
  for (; count != 0; bytes++, count--) state = state >> 8 ^ t[0][(state ^ *bytes) & 255];
  return state;
}

}  // namespace crc32

namespace {

struct Ways {
  Crc32Way ways[4];
  size_t count = 0;

  Ways() {
#ifdef __x86_64__
    if (crc32::has_wide_clmul())
      ways[count++] = {"vpclmulqdq, AVX-512", crc32::update_by_wide_clmul, crc32::copy_by_wide_clmul};
    if (crc32::has_double_clmul())
      ways[count++] = {"vpclmulqdq, AVX2", crc32::update_by_double_clmul, crc32::copy_by_double_clmul};
    if (crc32::has_clmul()) ways[count++] = {"pclmulqdq", crc32::update_by_clmul, nullptr};
#endif
    ways[count++] = {"table", crc32::update_by_table, nullptr};
  }
};

using Update = decltype(Crc32Way::update);

uint32_t choose_and_update(uint32_t state, const uint8_t* bytes, size_t count);

// No initialization at load time: other libraries' may run first.
constinit std::atomic<Update> chosen{choose_and_update};

uint32_t choose_and_update(uint32_t state, const uint8_t* bytes, size_t count) {
  const Update update = crc32_ways()[0].update;
  chosen.store(update, std::memory_order_relaxed);
  return update(state, bytes, count);
}

}  // namespace

uint32_t crc32_update(uint32_t state, const uint8_t* bytes, size_t count) {
  return chosen.load(std::memory_order_relaxed)(state, bytes, count);
}

bool crc32_copy(uint32_t& state, void* to, const void* from, size_t count) {
  static const auto copy = crc32_ways()[0].copy;
  if (copy != nullptr && count >= kCrc32CopyMin && fault_guard_works())
    return copy(state, static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), count);
  if (!fault_copy(to, from, count)) return false;
  state = crc32_update(state, static_cast<const uint8_t*>(to), count);
  return true;
}

std::span<const Crc32Way> crc32_ways() {
  static const Ways ways;
  return {ways.ways, ways.count};
}

}  // namespace verbatim::roce
