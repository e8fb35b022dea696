// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace verbatim::engine {

/// AES-GCM (NIST SP 800-38D) with one key. Immutable, and so thread safe.
class AesGcm {
 public:
  static constexpr size_t kTag = 16;
  using Nonce = std::array<uint8_t, 12>;

  /// Whether keys have so many bytes: 16 for AES-128, 32 for AES-256.
  static bool takes(size_t key_bytes) { return key_bytes == 16 || key_bytes == 32; }
  explicit AesGcm(std::span<const uint8_t> key);
  ~AesGcm();
  AesGcm(const AesGcm&) = delete;
  AesGcm& operator=(const AesGcm&) = delete;

  /// Changes the text in place; `beside` is authenticated with it.
  void encrypt(const Nonce& nonce, std::span<const uint8_t> beside, std::span<uint8_t> text,
               uint8_t (&tag)[kTag]) const;
  /// False: the tag is wrong, and the text is nothing.
  bool decrypt(const Nonce& nonce, std::span<const uint8_t> beside, std::span<uint8_t> text,
               const uint8_t* tag) const;

 private:
  struct Schedule;
  std::unique_ptr<Schedule> schedule_;
};

}  // namespace verbatim::engine
