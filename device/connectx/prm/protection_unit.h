// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/expected.h"

namespace verbatim::prm {

/// What the device's crypto engine can do.
struct CryptoFacts {
  bool wrapped = false;  ///< data encryption keys have to come wrapped, after a login
  uint32_t log_max_deks = 0, log_max_import_keks = 0, log_max_credentials = 0;
  uint32_t import_keks = 0, credentials = 0;  ///< that are there
};

/// A data encryption key as its program hands it over.
struct DekSpec {
  uint32_t pd = 0;
  bool keys_of_256_bits = false;
  bool has_keytag = false;
  uint64_t opaque = 0;
  std::array<uint8_t, 128> key{};
};

struct LoginSpec {
  uint32_t credential = 0, import_kek = 0;  ///< numbers
  std::array<uint8_t, 48> wrapped{};        ///< the credential
};

/// What memory keys are protected with: data encryption keys, logins that allow wrapped ones, and signature
/// values (PSV). Objects belong to the user context that made them. Errors as in CommandUnit.
class ProtectionUnit {
 public:
  virtual ~ProtectionUnit() = default;
  virtual CryptoFacts crypto_facts() const = 0;

  virtual Expected<uint32_t> create_dek(uint16_t uid, const DekSpec& spec) = 0;
  /// What its program has noted with it.
  virtual Expected<uint64_t> query_dek(uint16_t uid, uint32_t number) = 0;
  virtual Outcome destroy_dek(uint16_t uid, uint32_t number) = 0;

  virtual Expected<uint32_t> create_login(uint16_t uid, const LoginSpec& spec) = 0;
  /// Whether it is still good.
  virtual Expected<bool> query_login(uint16_t uid, uint32_t number) = 0;
  virtual Outcome destroy_login(uint16_t uid, uint32_t number) = 0;

  /// 1 to 4 of them.
  virtual Expected<std::vector<uint32_t>> create_psvs(uint16_t uid, uint32_t pd, uint32_t count) = 0;
  virtual Outcome destroy_psv(uint16_t uid, uint32_t number) = 0;
};

}  // namespace verbatim::prm
