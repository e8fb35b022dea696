// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "device/connectx/crypto_options.h"
#include "device/connectx/object_numbers.h"
#include "device/connectx/prm/protection_unit.h"
#include "engine/protection/aes_xts.h"

namespace verbatim::connectx {

/// A data encryption key in the device.
struct Dek {
  uint16_t maker = 0;
  uint32_t pd = 0;
  bool was_wrapped = false;
  uint64_t opaque = 0;
  std::vector<uint8_t> keytag;  ///< empty: it has none
  std::shared_ptr<const engine::AesXts> cipher;
};

/// What memory keys are protected with, by number. Thread safe.
class ProtectionDevice final : public prm::ProtectionUnit {
 public:
  /// `numbers` must outlive it, and is locked by the callers of what takes a protection domain.
  ProtectionDevice(ObjectNumbers& numbers, const CryptoOptions& options)
      : numbers_(numbers), options_(options) {}

  prm::CryptoFacts crypto_facts() const override;
  Expected<uint32_t> create_dek(uint16_t uid, const prm::DekSpec& spec) override;
  Expected<uint64_t> query_dek(uint16_t uid, uint32_t number) override;
  Outcome destroy_dek(uint16_t uid, uint32_t number) override;
  Expected<uint32_t> create_login(uint16_t uid, const prm::LoginSpec& spec) override;
  Expected<bool> query_login(uint16_t uid, uint32_t number) override;
  Outcome destroy_login(uint16_t uid, uint32_t number) override;
  Expected<std::vector<uint32_t>> create_psvs(uint16_t uid, uint32_t pd, uint32_t count) override;
  Outcome destroy_psv(uint16_t uid, uint32_t number) override;
  /// Whether a user context has made something here.
  bool has_some_of(uint16_t uid) const;

  /// The key of that number, if it belongs to this protection domain; one without cipher otherwise.
  Dek find_dek(uint32_t number, uint32_t pd) const;
  /// Whether there is a signature value of that number in this protection domain.
  bool has_psv(uint32_t number, uint32_t pd) const;

 private:
  struct Login {
    uint16_t maker;
    uint32_t import_kek;
  };
  struct Psv {
    uint16_t maker;
    uint32_t pd;
  };
  template <class T>
  using Numbered = std::unordered_map<uint32_t, T>;

  Outcome check_pd(uint16_t uid, uint32_t pd) const;
  const Login* login_of(uint16_t uid) const;
  Expected<std::vector<uint8_t>> bare_key(uint16_t uid, const prm::DekSpec& spec) const;

  ObjectNumbers& numbers_;
  const CryptoOptions options_;
  mutable std::mutex lock_;
  Numbered<Dek> deks_;
  Numbered<Login> logins_;
  Numbered<Psv> psvs_;
  NumberSpace dek_numbers_, login_numbers_, psv_numbers_;
};

}  // namespace verbatim::connectx
