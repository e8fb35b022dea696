// SPDX-License-Identifier: MIT
// Encryption by memory keys, and the keys and logins that it takes. What is right is asked of OpenSSL.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/aes.h>
#include <openssl/evp.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "tests/conformance/protected_keys.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kCrypto = MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO;
constexpr uint32_t kBoth = kCrypto | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;

/// The way in for keys of devices opened meanwhile.
class ImportMethod {
 public:
  explicit ImportMethod(const char* value) { setenv("VERBATIM_CRYPTO", value, 1); }
  ~ImportMethod() { unsetenv("VERBATIM_CRYPTO"); }
};

Bytes key_pair(bool long_keys = false) { return random_bytes(long_keys ? 64 : 32, 11); }

mlx5dv_dek_init_attr dek_attributes(ibv_pd* pd, const Bytes& key, bool long_keys = false) {
  mlx5dv_dek_init_attr attributes{};
  attributes.key_size = long_keys ? MLX5DV_CRYPTO_KEY_SIZE_256 : MLX5DV_CRYPTO_KEY_SIZE_128;
  attributes.pd = pd;
  std::memcpy(attributes.opaque, "dek", 3);
  std::memcpy(attributes.key, key.data(), key.size());
  attributes.comp_mask = MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN;
  return attributes;
}

/// By AES key wrap, with the import KEK that the device has without a file.
Bytes wrapped(const Bytes& plain) {
  uint8_t kek[16];
  std::iota(std::begin(kek), std::end(kek), uint8_t{0});
  AES_KEY schedule;
  AES_set_encrypt_key(kek, 128, &schedule);
  Bytes out(plain.size() + 8);
  EXPECT_EQ(AES_wrap_key(&schedule, nullptr, out.data(), plain.data(), static_cast<unsigned>(plain.size())),
            static_cast<int>(out.size()));
  return out;
}

Bytes credential() {
  Bytes plain(40);
  std::iota(plain.begin(), plain.end(), uint8_t{64});
  return wrapped(plain);
}

/// AES-XTS over whole data units numbered from `number` on.
Bytes xts(const Bytes& keys, bool encrypt, uint64_t number, size_t unit, const Bytes& in) {
  Bytes out(in.size());
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  const EVP_CIPHER* cipher = keys.size() == 32 ? EVP_aes_128_xts() : EVP_aes_256_xts();
  for (size_t at = 0; at < in.size(); at += unit, number++) {
    uint8_t tweak[16] = {};
    std::memcpy(tweak, &number, sizeof number);
    int length = 0;
    EXPECT_EQ(EVP_CipherInit_ex(context, cipher, nullptr, keys.data(), tweak, encrypt), 1);
    EXPECT_EQ(EVP_CipherUpdate(context, &out[at], &length, &in[at],
                               static_cast<int>(std::min(unit, in.size() - at))),
              1);
  }
  EVP_CIPHER_CTX_free(context);
  return out;
}

struct Device : testing::Test {
  explicit Device(const char* method) : way(method) {}
  ~Device() override {
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  mlx5dv_crypto_caps caps() const {
    mlx5dv_context told{};
    told.comp_mask = MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD;
    EXPECT_EQ(mlx5dv_query_device(context, &told), 0);
    EXPECT_EQ(told.comp_mask, MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD);
    return told.crypto_caps;
  }
  int refusal(mlx5dv_dek_init_attr attributes) const {
    errno = 0;
    mlx5dv_dek* dek = mlx5dv_dek_create(context, &attributes);
    EXPECT_EQ(dek, nullptr);
    return errno;
  }
  ImportMethod way;
  ibv_context* context = open_first();
  ibv_pd* pd = ibv_alloc_pd(context);
};

struct PlainKeys : Device {
  PlainKeys() : Device("plain") {}
};
struct WrappedKeys : Device {
  WrappedKeys() : Device("wrapped") {}
  mlx5dv_crypto_login_attr login() const {
    mlx5dv_crypto_login_attr attributes{};
    std::memcpy(attributes.credential, credential().data(), sizeof attributes.credential);
    return attributes;
  }
  mlx5dv_crypto_login_state state() const {
    mlx5dv_crypto_login_state told{};
    EXPECT_EQ(mlx5dv_crypto_login_query_state(context, &told), 0);
    return told;
  }
};

TEST_F(PlainKeys, AreCapabilities) {
  const mlx5dv_crypto_caps told = caps();
  EXPECT_EQ(told.failed_selftests, 0);
  EXPECT_EQ(told.crypto_engines,
            MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_SINGLE_BLOCK | MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_MULTI_BLOCK);
  EXPECT_EQ(told.wrapped_import_method, 0);
  EXPECT_EQ(told.flags, static_cast<uint32_t>(MLX5DV_CRYPTO_CAPS_CRYPTO));
  EXPECT_EQ(told.log_max_num_deks, 16);
}

TEST_F(PlainKeys, AreMadeAskedForAndDestroyed) {
  mlx5dv_dek_init_attr attributes = dek_attributes(pd, key_pair());
  mlx5dv_dek* dek = mlx5dv_dek_create(context, &attributes);
  ASSERT_NE(dek, nullptr);
  mlx5dv_dek_attr told{};
  ASSERT_EQ(mlx5dv_dek_query(dek, &told), 0);
  EXPECT_EQ(told.state, MLX5DV_DEK_STATE_READY);
  EXPECT_EQ(std::memcmp(told.opaque, "dek\0\0\0\0", 8), 0);
  told.comp_mask = 1;
  EXPECT_EQ(mlx5dv_dek_query(dek, &told), EINVAL);
  EXPECT_EQ(mlx5dv_dek_destroy(dek), 0);

  mlx5dv_dek_init_attr bad = attributes;
  bad.comp_mask = 0;
  EXPECT_EQ(refusal(bad), EINVAL) << "wrapped, by a login that there is not";
  bad = attributes;
  bad.comp_mask |= 2;
  EXPECT_EQ(refusal(bad), EINVAL);
  bad = attributes;
  bad.key_size = static_cast<mlx5dv_crypto_key_size>(2);
  EXPECT_EQ(refusal(bad), EINVAL);
  bad = attributes;
  bad.key_purpose = static_cast<mlx5dv_crypto_key_purpose>(1);
  EXPECT_EQ(refusal(bad), EINVAL);
  mlx5dv_crypto_login_attr login{};
  EXPECT_EQ(mlx5dv_crypto_login(context, &login), EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_crypto_logout(context), ENOENT);
}

TEST_F(WrappedKeys, TakeASession) {
  const mlx5dv_crypto_caps told = caps();
  EXPECT_EQ(told.wrapped_import_method, MLX5DV_CRYPTO_WRAPPED_IMPORT_METHOD_CAP_AES_XTS);
  EXPECT_EQ(told.flags,
            static_cast<uint32_t>(MLX5DV_CRYPTO_CAPS_CRYPTO | MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL));
  mlx5dv_dek_init_attr attributes = dek_attributes(pd, wrapped(key_pair()));
  EXPECT_EQ(refusal(attributes), EINVAL) << "plain text";
  attributes.comp_mask = 0;
  EXPECT_EQ(refusal(attributes), EINVAL) << "no login";
  EXPECT_EQ(state(), MLX5DV_CRYPTO_LOGIN_STATE_NO_LOGIN);

  mlx5dv_crypto_login_attr wanted = login();
  wanted.credential[5] ^= 1;
  EXPECT_EQ(mlx5dv_crypto_login(context, &wanted), EINVAL);
  wanted = login();
  wanted.credential_id = 1;
  EXPECT_EQ(mlx5dv_crypto_login(context, &wanted), EINVAL);
  wanted = login();
  wanted.import_kek_id = 1;
  EXPECT_EQ(mlx5dv_crypto_login(context, &wanted), EINVAL);
  wanted = login();
  ASSERT_EQ(mlx5dv_crypto_login(context, &wanted), 0);
  EXPECT_EQ(state(), MLX5DV_CRYPTO_LOGIN_STATE_VALID);
  EXPECT_EQ(mlx5dv_crypto_login(context, &wanted), EEXIST);

  mlx5dv_dek* dek = mlx5dv_dek_create(context, &attributes);
  ASSERT_NE(dek, nullptr);
  attributes.key[9] ^= 1;
  EXPECT_EQ(refusal(attributes), EINVAL) << "damaged";
  EXPECT_EQ(mlx5dv_crypto_logout(context), 0);
  EXPECT_EQ(state(), MLX5DV_CRYPTO_LOGIN_STATE_NO_LOGIN);
  mlx5dv_dek_attr shown{};
  EXPECT_EQ(mlx5dv_dek_query(dek, &shown), EINVAL) << "only during a login";
  EXPECT_EQ(mlx5dv_dek_destroy(dek), 0);
}

TEST_F(WrappedKeys, TakeALoginObject) {
  const Bytes shown = credential();
  mlx5dv_crypto_login_attr_ex wanted{0, 0, shown.data(), shown.size(), 0};
  mlx5dv_crypto_login_obj* object = mlx5dv_crypto_login_create(context, &wanted);
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(mlx5dv_crypto_login_create(context, &wanted), nullptr);
  EXPECT_EQ(errno, EEXIST);
  mlx5dv_crypto_login_query_attr told{};
  ASSERT_EQ(mlx5dv_crypto_login_query(object, &told), 0);
  EXPECT_EQ(told.state, MLX5DV_CRYPTO_LOGIN_STATE_VALID);
  for (const bool tagged : {false, true}) {
    Bytes key = key_pair(true);
    if (tagged) key.resize(72, 0x77);
    mlx5dv_dek_init_attr attributes = dek_attributes(pd, wrapped(key), true);
    attributes.has_keytag = tagged;
    attributes.crypto_login = object;
    mlx5dv_dek* dek = mlx5dv_dek_create(context, &attributes);
    ASSERT_NE(dek, nullptr);
    mlx5dv_dek_attr shown_key{};
    EXPECT_EQ(mlx5dv_dek_query(dek, &shown_key), 0);
    EXPECT_EQ(mlx5dv_dek_destroy(dek), 0);
  }
  EXPECT_EQ(mlx5dv_crypto_login_destroy(object), 0);
  wanted.credential_len = 64;
  EXPECT_EQ(mlx5dv_crypto_login_create(context, &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(CryptoOptions, AreExplainedWhenTheyAreWrong) {
  const ImportMethod way("wrapped:/nowhere/at/all");
  ibv_device** list = ibv_get_device_list(nullptr);
  EXPECT_EQ(ibv_open_device(list[0]), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_free_device_list(list);
}

/// A player's keys for AES-XTS.
struct Cipher {
  explicit Cipher(Endpoint& self, bool long_keys = false, const char* tag = nullptr)
      : pair(key_pair(long_keys)) {
    mlx5dv_dek_init_attr attributes = dek_attributes(self.pd, pair, long_keys);
    if (tag != nullptr) std::memcpy(attributes.key + pair.size(), tag, 8);
    attributes.has_keytag = tag != nullptr;
    dek = mlx5dv_dek_create(self.context, &attributes);
    EXPECT_NE(dek, nullptr);
  }
  ~Cipher() { EXPECT_TRUE(dek == nullptr || mlx5dv_dek_destroy(dek) == 0); }
  mlx5dv_crypto_attr attributes(bool encrypts, mlx5dv_block_size unit = MLX5DV_BLOCK_SIZE_512,
                                uint64_t first = 0, bool before = true) const {
    mlx5dv_crypto_attr made{};
    made.encrypt_on_tx = encrypts;
    made.signature_crypto_order = before ? MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_BEFORE_CRYPTO_ON_TX
                                         : MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX;
    made.data_unit_size = unit;
    std::memcpy(made.initial_tweak, &first, sizeof first);
    made.dek = dek;
    return made;
  }
  Bytes pair;
  mlx5dv_dek* dek;
};

int post(Endpoint& self, ibv_send_wr wr) {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(self.qp, &wr, &bad);
}

using Crypto = Played;
VERBATIM_PLAY_BOTH_WAYS(Crypto);

constexpr size_t kLength = 8192;
constexpr uint64_t kFirstNumber = 0xffff'ffff'ffff'fffe;  // its numbers carry into the upper half

/// Encrypts what it sends, and again what it reads back.
void encrypting_part(Endpoint& self) {
  for (const bool long_keys : {false, true}) {
    const Cipher cipher(self, long_keys);
    ProtectedKey key(self, kCrypto);
    const mlx5dv_crypto_attr wanted = cipher.attributes(true, MLX5DV_BLOCK_SIZE_512, 7);
    const Bytes data = random_bytes(kLength, 12);
    put(self, 0, data);
    ASSERT_EQ(key.give({{0, kLength}}, nullptr, &wanted), IBV_WC_SUCCESS);
    self.barrier();
    ASSERT_EQ(post(self, through(key.sge(0, kLength), IBV_WR_SEND)), 0);
    EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
    self.barrier();
    put(self, 0, Bytes(kLength));
    ASSERT_EQ(post(self, through(key.sge(0, kLength), IBV_WR_RDMA_READ, self.peer.address, self.peer.rkey)),
              0);
    EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
    EXPECT_EQ(got(self, 0, kLength), data) << "decrypted on the way in";
    self.barrier();
  }
}

void cipher_text_part(Endpoint& self) {
  for (const bool long_keys : {false, true}) {
    ASSERT_EQ(self.receive(0, kLength), 0);
    self.barrier();
    EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
    EXPECT_EQ(xts(key_pair(long_keys), false, 7, 512, got(self, 0, kLength)), random_bytes(kLength, 12));
    self.barrier();
    self.barrier();
  }
}

TEST_P(Crypto, WhatIsSentIsEncrypted) { play(key_traits(), encrypting_part, cipher_text_part); }

struct CryptoPair : testing::Test {
  void write(const ibv_sge& sge, ibv_wc_status wanted = IBV_WC_SUCCESS) {
    ASSERT_EQ(post(pair.left, through(sge, IBV_WR_RDMA_WRITE, pair.left.peer.address, pair.left.peer.rkey)),
              0);
    EXPECT_EQ(pair.left.wait_status(), wanted);
  }
  Pair pair{key_traits()};
};

TEST_F(CryptoPair, EveryUnitSizeAndDirectionAgreesWithOpenSsl) {
  const Cipher cipher(pair.left);
  const Bytes data = random_bytes(4160 * 3, 13);
  for (const auto size : {MLX5DV_BLOCK_SIZE_512, MLX5DV_BLOCK_SIZE_520, MLX5DV_BLOCK_SIZE_4048,
                          MLX5DV_BLOCK_SIZE_4096, MLX5DV_BLOCK_SIZE_4160})
    for (const bool encrypts : {true, false}) {
      const size_t unit = Fields{Fields::Kind::kNone, size}.block_bytes(), length = 3 * unit;
      ProtectedKey key(pair.left, kCrypto);
      const mlx5dv_crypto_attr wanted = cipher.attributes(encrypts, size);
      put(pair.left, 0, data);
      ASSERT_EQ(key.give({{0, static_cast<uint32_t>(length)}}, nullptr, &wanted), IBV_WC_SUCCESS);
      write(key.sge(0, length));
      const Bytes in(data.begin(), data.begin() + static_cast<long>(length));
      EXPECT_EQ(got(pair.right, 0, length), xts(cipher.pair, encrypts, 0, unit, in));
    }
}

TEST_F(CryptoPair, NumbersOfUnitsHave128Bits) {
  const Cipher cipher(pair.left);
  ProtectedKey key(pair.left, kCrypto);
  const mlx5dv_crypto_attr wanted = cipher.attributes(true, MLX5DV_BLOCK_SIZE_512, kFirstNumber);
  const Bytes data = random_bytes(512 * 3, 14);
  put(pair.left, 0, data);
  ASSERT_EQ(key.give({{0, 512 * 3}}, nullptr, &wanted), IBV_WC_SUCCESS);
  write(key.sge(0, 512 * 3));
  const Bytes low = xts(cipher.pair, true, kFirstNumber, 512, Bytes(data.begin(), data.begin() + 1024));
  EXPECT_EQ(got(pair.right, 0, 1024), low);
  EXPECT_NE(got(pair.right, 1024, 512),
            xts(cipher.pair, true, 0, 512, Bytes(data.begin() + 1024, data.end())))
      << "not 0 again, but 2^64";
}

TEST_F(CryptoPair, KeysWithoutEncryptionOrWithTheWrongTagLetNothingThrough) {
  {
    ProtectedKey key(pair.left, kCrypto);
    ASSERT_EQ(key.give({{0, 512}}, nullptr), IBV_WC_SUCCESS);
    write(key.sge(0, 512), IBV_WC_LOC_PROT_ERR);
  }
  Pair other{key_traits()};
  const Cipher cipher(other.left, false, "keytag-1");
  ProtectedKey key(other.left, kCrypto);
  mlx5dv_crypto_attr wanted = cipher.attributes(true);
  std::memcpy(wanted.keytag, "keytag-1", 8);
  ASSERT_EQ(key.give({{0, 512}}, nullptr, &wanted), IBV_WC_SUCCESS);
  ASSERT_EQ(post(other.left,
                 through(key.sge(0, 512), IBV_WR_RDMA_WRITE, other.left.peer.address, other.left.peer.rkey)),
            0);
  EXPECT_EQ(other.left.wait_status(), IBV_WC_SUCCESS);
  std::memcpy(wanted.keytag, "keytag-2", 8);
  ASSERT_EQ(key.give({{0, 512}}, nullptr, &wanted), IBV_WC_SUCCESS);
  ASSERT_EQ(post(other.left,
                 through(key.sge(0, 512), IBV_WR_RDMA_WRITE, other.left.peer.address, other.left.peer.rkey)),
            0);
  EXPECT_EQ(other.left.wait_status(), IBV_WC_LOC_PROT_ERR);
}

TEST_F(CryptoPair, WhatEndsInsideACipherBlockIsRefused) {
  const Cipher cipher(pair.right);
  ProtectedKey key(pair.right, kCrypto);
  const mlx5dv_crypto_attr wanted = cipher.attributes(true);
  ASSERT_EQ(key.give({{0, 1024}}, nullptr, &wanted), IBV_WC_SUCCESS);
  const Bytes data = random_bytes(1024, 15);
  put(pair.left, 0, xts(cipher.pair, true, 0, 512, data));
  const auto write_theirs = [&](uint32_t length) {
    EXPECT_EQ(post(pair.left, through(pair.left.piece(0, length), IBV_WR_RDMA_WRITE, 0, key.key->rkey)), 0);
    return pair.left.wait_status();
  };
  EXPECT_EQ(write_theirs(512 + 128), IBV_WC_SUCCESS);
  EXPECT_EQ(got(pair.right, 0, 512 + 128), Bytes(data.begin(), data.begin() + 512 + 128));
  EXPECT_EQ(write_theirs(47), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(CryptoPair, AKeyKeepsWhatItsDestroyedDekWas) {
  ProtectedKey key(pair.left, kCrypto);
  const Bytes data = random_bytes(512, 16);
  {
    const Cipher cipher(pair.left);
    const mlx5dv_crypto_attr wanted = cipher.attributes(true);
    put(pair.left, 0, data);
    ASSERT_EQ(key.give({{0, 512}}, nullptr, &wanted), IBV_WC_SUCCESS);
  }
  write(key.sge(0, 512));
  EXPECT_EQ(got(pair.right, 0, 512), xts(key_pair(), true, 0, 512, data));
}

// Rows B, C and D of the table in mlx5dv_wr_set_mkey_crypto(3).
TEST_F(CryptoPair, SignaturesComeBeforeOrAfterEncryption) {
  const Cipher cipher(pair.left);
  const Fields fields{Fields::Kind::kT10Crc};
  const Bytes data = random_bytes(512 * 4, 17);
  const Signature on_wire({}, fields), in_memory(fields, {});
  const auto run = [&](const Bytes& memory, const Signature& signature, const mlx5dv_crypto_attr& wanted,
                       size_t length) {
    ProtectedKey key(pair.left, kBoth);
    put(pair.left, 0, memory);
    EXPECT_EQ(key.give({{0, static_cast<uint32_t>(memory.size())}}, &signature.attr, &wanted),
              IBV_WC_SUCCESS);
    write(key.sge(0, length));
    EXPECT_EQ(key.error(), MLX5DV_MKEY_NO_ERR);
    return got(pair.right, 0, length);
  };
  const Bytes with = fields.put_into(data);
  EXPECT_EQ(run(data, on_wire, cipher.attributes(true, MLX5DV_BLOCK_SIZE_512, 0, false), with.size()),
            fields.put_into(xts(cipher.pair, true, 0, 512, data)));
  EXPECT_EQ(run(data, on_wire, cipher.attributes(true, MLX5DV_BLOCK_SIZE_520), with.size()),
            xts(cipher.pair, true, 0, 520, with));
  EXPECT_EQ(run(with, in_memory, cipher.attributes(true), data.size()), xts(cipher.pair, true, 0, 512, data));

  ProtectedKey key(pair.left, kBoth);
  const Signature both(fields, fields);
  const mlx5dv_crypto_attr raw = cipher.attributes(true, MLX5DV_BLOCK_SIZE_512, 0, false);
  EXPECT_EQ(key.post({{0, 2080}}, &both.attr, &raw), EINVAL) << "the device cannot";
}

TEST_F(CryptoPair, SettersRefuseWhatMakesNoSense) {
  const Cipher cipher(pair.left);
  ProtectedKey key(pair.left, kCrypto), plain(pair.left, 0);
  mlx5dv_crypto_attr wanted = cipher.attributes(true);
  EXPECT_EQ(plain.post({{0, 512}}, nullptr, &wanted), EINVAL);
  wanted.comp_mask = 1;
  EXPECT_EQ(key.post({{0, 512}}, nullptr, &wanted), EINVAL);
  wanted = cipher.attributes(true);
  wanted.data_unit_size = static_cast<mlx5dv_block_size>(9);
  EXPECT_EQ(key.post({{0, 512}}, nullptr, &wanted), EINVAL);
  wanted = cipher.attributes(true);
  wanted.dek = nullptr;
  EXPECT_EQ(key.post({{0, 512}}, nullptr, &wanted), EINVAL);
  wanted = cipher.attributes(true);
  EXPECT_EQ(key.give({{0, 512}}, nullptr, &wanted), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbatim::conformance
