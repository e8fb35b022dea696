// SPDX-License-Identifier: MIT
// OpenSSL's, without its EVP layer, as in aes_xts.cpp.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "engine/protection/aes_gcm.h"

#include <openssl/aes.h>
#include <openssl/crypto.h>
#include <openssl/modes.h>

namespace verbatim::engine {

struct AesGcm::Schedule {
  AES_KEY key;
};

namespace {

/// The state of one text.
class Text {
 public:
  Text(AES_KEY& key, const AesGcm::Nonce& nonce, std::span<const uint8_t> beside)
      : state_(CRYPTO_gcm128_new(&key, reinterpret_cast<block128_f>(AES_encrypt))) {
    CRYPTO_gcm128_setiv(state_, nonce.data(), nonce.size());
    CRYPTO_gcm128_aad(state_, beside.data(), beside.size());
  }
  ~Text() { CRYPTO_gcm128_release(state_); }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  GCM128_CONTEXT* state() { return state_; }

 private:
  GCM128_CONTEXT* state_;
};

}  // namespace

AesGcm::AesGcm(std::span<const uint8_t> key) : schedule_(std::make_unique<Schedule>()) {
  AES_set_encrypt_key(key.data(), static_cast<int>(key.size() * 8), &schedule_->key);
}

AesGcm::~AesGcm() { OPENSSL_cleanse(schedule_.get(), sizeof *schedule_); }

void AesGcm::encrypt(const Nonce& nonce, std::span<const uint8_t> beside, std::span<uint8_t> text,
                     uint8_t (&tag)[kTag]) const {
  Text run(schedule_->key, nonce, beside);
  CRYPTO_gcm128_encrypt(run.state(), text.data(), text.data(), text.size());
  CRYPTO_gcm128_tag(run.state(), tag, kTag);
}

bool AesGcm::decrypt(const Nonce& nonce, std::span<const uint8_t> beside, std::span<uint8_t> text,
                     const uint8_t* tag) const {
  Text run(schedule_->key, nonce, beside);
  CRYPTO_gcm128_decrypt(run.state(), text.data(), text.data(), text.size());
  return CRYPTO_gcm128_finish(run.state(), tag, kTag) == 0;
}

}  // namespace verbatim::engine
