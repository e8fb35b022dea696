// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <random>

#include "engine/protection/aes_xts.h"
#include "engine/protection/key_wrap.h"

namespace verbatim::engine {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes random_bytes(std::mt19937& random, size_t count) {
  Bytes made(count);
  for (uint8_t& each : made) each = static_cast<uint8_t>(random());
  return made;
}

Bytes by_openssl(const Bytes& keys, const AesXts::Block& number, const Bytes& plain) {
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  const EVP_CIPHER* cipher = keys.size() == 32 ? EVP_aes_128_xts() : EVP_aes_256_xts();
  Bytes out(plain.size());
  int length = 0;
  EXPECT_EQ(EVP_EncryptInit_ex(context, cipher, nullptr, keys.data(), number.data()), 1);
  EXPECT_EQ(EVP_EncryptUpdate(context, out.data(), &length, plain.data(), static_cast<int>(plain.size())), 1);
  EVP_CIPHER_CTX_free(context);
  return out;
}

// IEEE 1619, vector 1: all zeros.
TEST(AesXts, EncryptsTheVectorOfTheStandard) {
  const AesXts cipher(Bytes(32));
  Bytes unit(32);
  cipher.encrypt({}, unit);
  EXPECT_EQ(unit, (Bytes{0x91, 0x7c, 0xf6, 0x9e, 0xbd, 0x68, 0xb2, 0xec, 0x9b, 0x9f, 0xe9,
                         0xa3, 0xea, 0xdd, 0xa6, 0x92, 0xcd, 0x43, 0xd2, 0xf5, 0x95, 0x98,
                         0xed, 0x85, 0x8c, 0x02, 0xc2, 0x65, 0x2f, 0xbf, 0x92, 0x2e}));
}

TEST(AesXts, AgreesWithOpenSslAtEveryLength) {
  std::mt19937 random(1);
  for (const size_t key_bytes : {32, 64})
    for (size_t length = 16; length <= 100; length++) {
      const Bytes keys = random_bytes(random, key_bytes);
      const Bytes plain = random_bytes(random, length);
      AesXts::Block number;
      for (uint8_t& each : number) each = static_cast<uint8_t>(random());
      const AesXts cipher(keys);
      Bytes unit = plain;
      cipher.encrypt(number, unit);
      ASSERT_EQ(unit, by_openssl(keys, number, plain)) << length;
      cipher.decrypt(number, unit);
      ASSERT_EQ(unit, plain) << length;
    }
}

TEST(AesXts, NumbersCarryInto128Bits) {
  AesXts::Block number{};
  number.fill(0xff);
  EXPECT_EQ(advanced(number, 1), AesXts::Block{});
  EXPECT_EQ(advanced({0xff}, 0x0101), (AesXts::Block{0x00, 0x02}));
  EXPECT_EQ(advanced({1}, UINT64_MAX), (AesXts::Block{0, 0, 0, 0, 0, 0, 0, 0, 1}));
}

// RFC 3394, sections 4.1 and 4.6.
TEST(KeyWrap, OpensTheVectorsOfTheRfc) {
  Bytes kek(32), key(32);
  for (size_t i = 0; i < kek.size(); i++) kek[i] = static_cast<uint8_t>(i);
  for (size_t i = 0; i < 16; i++)
    key[i] = static_cast<uint8_t>(i * 0x11), key[16 + i] = static_cast<uint8_t>(i);
  const Bytes small{0x1f, 0xa6, 0x8b, 0x0a, 0x81, 0x12, 0xb4, 0x47, 0xae, 0xf3, 0x4b, 0xd8,
                    0xfb, 0x5a, 0x7b, 0x82, 0x9d, 0x3e, 0x86, 0x23, 0x71, 0xd2, 0xcf, 0xe5};
  EXPECT_EQ(unwrap_key(std::span(kek).first(16), small), Bytes(key.begin(), key.begin() + 16));
  const Bytes large{0x28, 0xc9, 0xf4, 0x04, 0xc4, 0xb8, 0x10, 0xf4, 0xcb, 0xcc, 0xb3, 0x5c, 0xfb, 0x87,
                    0xf8, 0x26, 0x3f, 0x57, 0x86, 0xe2, 0xd8, 0x0e, 0xd3, 0x26, 0xcb, 0xc7, 0xf0, 0xe7,
                    0x1a, 0x99, 0xf4, 0x3b, 0xfb, 0x98, 0x8b, 0x9b, 0x7a, 0x02, 0xdd, 0x21};
  EXPECT_EQ(unwrap_key(kek, large), key);
  Bytes damaged = large;
  damaged[20] ^= 1;
  EXPECT_FALSE(unwrap_key(kek, damaged));
  EXPECT_FALSE(unwrap_key(std::span(kek).first(16), large)) << "another key";
  EXPECT_FALSE(unwrap_key(kek, std::span(large).first(16)));
  EXPECT_FALSE(unwrap_key(kek, std::span(large).first(39)));
  EXPECT_FALSE(unwrap_key(std::span(kek).first(5), large));
}

}  // namespace
}  // namespace verbatim::engine
