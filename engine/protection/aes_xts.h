// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace verbatim::engine {

/// AES-XTS (IEEE 1619) with one pair of keys. Immutable, and so thread safe.
class AesXts {
 public:
  static constexpr size_t kBlock = 16;
  using Block = std::array<uint8_t, kBlock>;

  /// Whether key pairs have so many bytes: 32 for AES-128, 64 for AES-256.
  static bool takes(size_t key_bytes) { return key_bytes == 32 || key_bytes == 64; }
  /// Both keys, one behind the other.
  explicit AesXts(std::span<const uint8_t> keys);
  ~AesXts();
  AesXts(const AesXts&) = delete;
  AesXts& operator=(const AesXts&) = delete;

  /// A data unit has its number, lowest byte first, and at least one block; it is changed in place.
  void encrypt(const Block& number, std::span<uint8_t> unit) const;
  void decrypt(const Block& number, std::span<uint8_t> unit) const;

 private:
  struct Schedules;
  template <class Cipher>
  void run(const Block& number, std::span<uint8_t> unit, bool encrypts, Cipher cipher) const;

  std::unique_ptr<Schedules> schedules_;
};

/// The number `more` behind `number`, lowest byte first.
AesXts::Block advanced(AesXts::Block number, uint64_t more);

}  // namespace verbatim::engine
