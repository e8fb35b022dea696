// SPDX-License-Identifier: MIT
// OpenSSL without its EVP layer, as in aes_xts.cpp.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "engine/protection/key_wrap.h"

#include <openssl/aes.h>
#include <openssl/crypto.h>

namespace verbatim::engine {

std::optional<std::vector<uint8_t>> unwrap_key(std::span<const uint8_t> kek,
                                               std::span<const uint8_t> wrapped) {
  constexpr size_t kUnit = 8;  // of the wrap; two are the shortest key, one more is the check
  if (wrapped.size() < 3 * kUnit || wrapped.size() % kUnit != 0) return {};
  AES_KEY schedule;
  if (AES_set_decrypt_key(kek.data(), static_cast<int>(kek.size() * 8), &schedule) != 0) return {};
  std::vector<uint8_t> key(wrapped.size() - kUnit);
  const int bytes = AES_unwrap_key(&schedule, nullptr, key.data(), wrapped.data(),
                                   static_cast<unsigned int>(wrapped.size()));
  OPENSSL_cleanse(&schedule, sizeof schedule);
  if (bytes != static_cast<int>(key.size())) return {};
  return key;
}

}  // namespace verbatim::engine
