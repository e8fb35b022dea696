// SPDX-License-Identifier: MIT
#include "wire/format/crc32.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/fault_copy.h"
#include "wire/format/crc32_tables.h"

namespace verbatim::roce {
namespace {

/// As defined, a bit at a time.
uint32_t slow_update(uint32_t state, std::span<const uint8_t> bytes) {
  for (const uint8_t byte : bytes) {
    state ^= byte;
    for (int bit = 0; bit < 8; bit++) state = crc32::times_x(state);
  }
  return state;
}

std::vector<uint8_t> some_bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  uint32_t state = 1;
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

TEST(Crc32, HasItsCheckValue) {
  const char digits[] = "123456789";
  for (const Crc32Way& way : crc32_ways())
    EXPECT_EQ(~way.update(kCrc32Start, reinterpret_cast<const uint8_t*>(digits), 9), 0xcbf43926) << way.name;
}

TEST(Crc32, IsTheSameInEveryWayLengthAndAlignment) {
  const auto bytes = some_bytes(1300);
  for (size_t from = 0; from < 4; from++)
    for (size_t count = 0; count < 1200; count++) {
      const auto part = std::span(bytes).subspan(from, count);
      const uint32_t right = slow_update(0x12345678, part);
      ASSERT_EQ(crc32_update(0x12345678, part), right) << count;
      for (const Crc32Way& way : crc32_ways())
        ASSERT_EQ(way.update(0x12345678, part.data(), count), right) << way.name << ' ' << count;
    }
}

TEST(Crc32, GoesOnWhereItStopped) {
  const auto bytes = some_bytes(5000);
  const uint32_t whole = slow_update(kCrc32Start, bytes);
  for (const Crc32Way& way : crc32_ways())
    for (const size_t cut : {1u, 15u, 16u, 17u, 64u, 255u, 256u, 1024u, 4096u, 4999u}) {
      const uint32_t first = way.update(kCrc32Start, bytes.data(), cut);
      EXPECT_EQ(way.update(first, bytes.data() + cut, bytes.size() - cut), whole) << way.name << ' ' << cut;
    }
}

TEST(Crc32, IsComputedWhileBytesAreCopied) {
  for (const bool guarded : {false, true}) {  // not at first
    if (guarded) install_fault_guard();
    const auto bytes = some_bytes(5000);
    std::vector<uint8_t> copy(5000);
    for (const size_t from : {0u, 1u, 12u})
      for (size_t count = 0; count < 4600; count += count < 600 ? 1 : 37) {
        const auto part = std::span(bytes).subspan(from, count);
        uint32_t state = 0x12345678;
        std::fill(copy.begin(), copy.end(), 0xa5);
        ASSERT_TRUE(crc32_copy(state, copy.data() + 28, part.data(), count));
        ASSERT_EQ(state, crc32_update(0x12345678, part)) << count;
        ASSERT_TRUE(std::equal(part.begin(), part.end(), copy.begin() + 28)) << count;
        ASSERT_EQ(copy[27], 0xa5);
        ASSERT_EQ(copy[28 + count], 0xa5);
      }
  }
}

TEST(Crc32, IsTheSameInEveryWayToCopy) {
  install_fault_guard();
  ASSERT_TRUE(fault_guard_works());
  const auto bytes = some_bytes(3000);
  std::vector<uint8_t> copy(3000);
  for (const Crc32Way& way : crc32_ways())
    for (size_t count = kCrc32CopyMin; way.copy != nullptr && count < 2900; count += count < 1100 ? 1 : 37) {
      const auto part = std::span(bytes).subspan(count % 13, count);
      uint32_t state = 0x12345678;
      std::fill(copy.begin(), copy.end(), 0xa5);
      ASSERT_TRUE(way.copy(state, copy.data() + 28, part.data(), count)) << way.name;
      ASSERT_EQ(state, slow_update(0x12345678, part)) << way.name << ' ' << count;
      ASSERT_TRUE(std::equal(part.begin(), part.end(), copy.begin() + 28)) << way.name << ' ' << count;
      ASSERT_EQ(copy[28 + count], 0xa5) << way.name << ' ' << count;
    }
}

TEST(Crc32, CopiesOnlyWhatIsThere) {
  install_fault_guard();
  constexpr size_t kPage = 4096;
  auto* area = static_cast<uint8_t*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(area, MAP_FAILED);
  munmap(area + kPage, kPage);
  std::vector<uint8_t> good(kPage);
  uint32_t state = kCrc32Start;
  for (const size_t there : {0u, 1u, 100u, 256u, 300u, 600u, 1024u, 4000u}) {
    EXPECT_FALSE(crc32_copy(state, good.data(), area + kPage - there, kPage)) << there;
    EXPECT_FALSE(crc32_copy(state, area + kPage - there, good.data(), kPage)) << there;
    for (const Crc32Way& way : crc32_ways()) {
      if (way.copy == nullptr) continue;
      EXPECT_FALSE(way.copy(state, good.data(), area + kPage - there, kPage)) << way.name << ' ' << there;
    }
  }
  EXPECT_TRUE(crc32_copy(state, good.data(), area, kPage));
  munmap(area, kPage);
}

TEST(Crc32, CanBeTakenBack) {
  EXPECT_EQ(crc32::over_x(crc32::times_x(0xdeadbeef)), 0xdeadbeefu);
  EXPECT_EQ(crc32::times_x(crc32::over_x(0xdeadbeee)), 0xdeadbeeeu);
  EXPECT_EQ(crc32::multiply(0xdeadbeef, crc32::power_of_x(0)), 0xdeadbeefu);
  EXPECT_EQ(crc32::multiply(crc32::power_of_x(40), crc32::power_of_x(60)), crc32::power_of_x(100));
}

}  // namespace
}  // namespace verbatim::roce
