// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <random>

#include "engine/protection/aes_gcm.h"
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

// NIST's test case 4 of GCM, whose text is no whole number of blocks.
TEST(AesGcm, EncryptsTheVectorOfTheStandard) {
  const Bytes key{0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c,
                  0x6d, 0x6a, 0x8f, 0x94, 0x67, 0x30, 0x83, 0x08};
  const AesGcm::Nonce nonce{0xca, 0xfe, 0xba, 0xbe, 0xfa, 0xce, 0xdb, 0xad, 0xde, 0xca, 0xf8, 0x88};
  const Bytes beside{0xfe, 0xed, 0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xfe, 0xed,
                     0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xab, 0xad, 0xda, 0xd2};
  const Bytes plain{0xd9, 0x31, 0x32, 0x25, 0xf8, 0x84, 0x06, 0xe5, 0xa5, 0x59, 0x09, 0xc5, 0xaf, 0xf5, 0x26,
                    0x9a, 0x86, 0xa7, 0xa9, 0x53, 0x15, 0x34, 0xf7, 0xda, 0x2e, 0x4c, 0x30, 0x3d, 0x8a, 0x31,
                    0x8a, 0x72, 0x1c, 0x3c, 0x0c, 0x95, 0x95, 0x68, 0x09, 0x53, 0x2f, 0xcf, 0x0e, 0x24, 0x49,
                    0xa6, 0xb5, 0x25, 0xb1, 0x6a, 0xed, 0xf5, 0xaa, 0x0d, 0xe6, 0x57, 0xba, 0x63, 0x7b, 0x39};
  Bytes text = plain;
  const AesGcm cipher(key);
  uint8_t tag[AesGcm::kTag];
  cipher.encrypt(nonce, beside, text, tag);
  EXPECT_EQ((Bytes{text.begin(), text.begin() + 4}), (Bytes{0x42, 0x83, 0x1e, 0xc2}));
  EXPECT_EQ((Bytes{tag, tag + 16}), (Bytes{0x5b, 0xc9, 0x4f, 0xbc, 0x32, 0x21, 0xa5, 0xdb, 0x94, 0xfa, 0xe9,
                                           0x5a, 0xe7, 0x12, 0x1a, 0x47}));
  Bytes damaged = text;
  damaged[5] ^= 1;
  EXPECT_FALSE(cipher.decrypt(nonce, beside, damaged, tag));
  EXPECT_TRUE(cipher.decrypt(nonce, beside, text, tag));
  EXPECT_EQ(text, plain);
}

}  // namespace
}  // namespace verbatim::engine
