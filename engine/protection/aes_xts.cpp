// SPDX-License-Identifier: MIT
// The cipher is OpenSSL's, without its EVP layer: that keeps state of the whole process, which may be a
// program with an OpenSSL of its own, and refuses pairs of equal keys.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "engine/protection/aes_xts.h"

#include <openssl/aes.h>
#include <openssl/crypto.h>

#include <algorithm>

namespace verbatim::engine {

namespace {

constexpr uint8_t kFeedback = 0x87;  ///< x^7 + x^2 + x + 1, which x^128 is replaced by

void add(uint8_t* to, const AesXts::Block& what) {
  for (size_t i = 0; i < what.size(); i++) to[i] ^= what[i];
}

/// The tweak of the next block.
AesXts::Block doubled(const AesXts::Block& tweak) {
  AesXts::Block next;
  uint8_t carry = 0;
  for (size_t i = 0; i < tweak.size(); i++) {
    next[i] = static_cast<uint8_t>(tweak[i] << 1 | carry);
    carry = tweak[i] >> 7;
  }
  if (carry) next[0] ^= kFeedback;
  return next;
}

}  // namespace

struct AesXts::Schedules {
  AES_KEY encrypt, decrypt, tweak;
};

AesXts::AesXts(std::span<const uint8_t> keys) : schedules_(std::make_unique<Schedules>()) {
  const size_t half = keys.size() / 2;
  const int bits = static_cast<int>(half * 8);
  AES_set_encrypt_key(keys.data(), bits, &schedules_->encrypt);
  AES_set_decrypt_key(keys.data(), bits, &schedules_->decrypt);
  AES_set_encrypt_key(keys.data() + half, bits, &schedules_->tweak);
}

AesXts::~AesXts() { OPENSSL_cleanse(schedules_.get(), sizeof *schedules_); }

template <class Cipher>
void AesXts::run(const Block& number, std::span<uint8_t> unit, bool encrypts, Cipher cipher) const {
  Block tweak;
  AES_encrypt(number.data(), tweak.data(), &schedules_->tweak);
  const auto block = [&](uint8_t* at, const Block& with) {
    add(at, with);
    cipher(at);
    add(at, with);
  };
  const size_t rest = unit.size() % kBlock;
  const size_t plain = unit.size() - (rest != 0 ? kBlock + rest : 0);
  size_t at = 0;
  for (; at < plain; at += kBlock, tweak = doubled(tweak)) block(unit.data() + at, tweak);
  if (rest == 0) return;
  // The last whole block lends the end of its result to the short one, and takes that one's place.
  const Block next = doubled(tweak);
  block(unit.data() + at, encrypts ? tweak : next);
  std::swap_ranges(unit.data() + at, unit.data() + at + rest, unit.data() + at + kBlock);
  block(unit.data() + at, encrypts ? next : tweak);
}

void AesXts::encrypt(const Block& number, std::span<uint8_t> unit) const {
  run(number, unit, true, [this](uint8_t* at) { AES_encrypt(at, at, &schedules_->encrypt); });
}

void AesXts::decrypt(const Block& number, std::span<uint8_t> unit) const {
  run(number, unit, false, [this](uint8_t* at) { AES_decrypt(at, at, &schedules_->decrypt); });
}

AesXts::Block advanced(AesXts::Block number, uint64_t more) {
  uint32_t carry = 0;
  for (size_t i = 0; i < number.size(); i++) {
    carry += number[i] + (i < 8 ? static_cast<uint32_t>(more >> (8 * i) & 0xff) : 0);
    number[i] = static_cast<uint8_t>(carry);
    carry >>= 8;
  }
  return number;
}

}  // namespace verbatim::engine
