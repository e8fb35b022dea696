// SPDX-License-Identifier: MIT
#pragma once

// The CRC of Ethernet and zlib (polynomial 0x04c11db7, least significant bit first), with the fastest
// instructions of this processor: carry-less multiplications of 512, 256 or 128 bits, or tables.

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::roce {

constexpr uint32_t kCrc32Start = 0xffffffff;

/// The state after these bytes, neither end inverted: of a whole message, the CRC is
/// ~crc32_update(kCrc32Start, message).
uint32_t crc32_update(uint32_t state, const uint8_t* bytes, size_t count);
inline uint32_t crc32_update(uint32_t state, std::span<const uint8_t> bytes) {
  return crc32_update(state, bytes.data(), bytes.size());
}

/// Copies memory that may not be there (base/fault_copy.h), and goes on with the state over it. False: part
/// may have been copied, and the state says nothing.
bool crc32_copy(uint32_t& state, void* to, const void* from, size_t count);

/// Less than this is copied first.
constexpr size_t kCrc32CopyMin = 512;

/// A way to compute it that works on this processor.
struct Crc32Way {
  const char* name;
  uint32_t (*update)(uint32_t state, const uint8_t* bytes, size_t count);
  /// Of kCrc32CopyMin bytes and more, in one pass and where `fault_guard_works`; null: there is none.
  bool (*copy)(uint32_t& state, uint8_t* to, const uint8_t* from, size_t count);
};
/// All of them, the fastest first.
std::span<const Crc32Way> crc32_ways();

}  // namespace verbatim::roce
