// SPDX-License-Identifier: MIT
#include "device/connectx/protection_device.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "engine/protection/key_wrap.h"

namespace verbatim::connectx {

namespace {

constexpr uint32_t kLogDeksMax = 16, kLogImportKeksMax = 8, kLogCredentialsMax = 8;
constexpr size_t kPsvsMax = 1u << 20;
constexpr size_t kKeytagBytes = 8;

/// Takes the object of that number out of a table, if the user context made it.
template <class T>
Outcome remove(std::unordered_map<uint32_t, T>& table, NumberSpace& numbers, uint16_t uid, uint32_t number,
               const char* what) {
  const auto found = table.find(number);
  if (found == table.end() || found->second.maker != uid) return nobodys(what, number);
  table.erase(found);
  numbers.give_back(number);
  return Done{};
}

constexpr const char* kDek = "data encryption key";
constexpr const char* kLogin = "crypto login";
constexpr const char* kPsv = "signature value";

}  // namespace

prm::CryptoFacts ProtectionDevice::crypto_facts() const {
  return {options_.wrapped,
          kLogDeksMax,
          kLogImportKeksMax,
          kLogCredentialsMax,
          static_cast<uint32_t>(options_.import_keks.size()),
          static_cast<uint32_t>(options_.credentials.size())};
}

Outcome ProtectionDevice::check_pd(uint16_t uid, uint32_t pd) const {
  const auto found = numbers_.pds.find(pd);
  if (found == numbers_.pds.end() || !found->second->is_for(uid)) return nobodys("protection domain", pd);
  return Done{};
}

const ProtectionDevice::Login* ProtectionDevice::login_of(uint16_t uid) const {
  for (const auto& [number, login] : logins_)
    if (login.maker == uid) return &login;
  return nullptr;
}

// Both halves and the tag, out of their wrap if they have one.
Expected<std::vector<uint8_t>> ProtectionDevice::bare_key(uint16_t uid, const prm::DekSpec& spec) const {
  const size_t bytes = (spec.keys_of_256_bits ? 64 : 32) + (spec.has_keytag ? kKeytagBytes : 0);
  const std::span<const uint8_t> given(spec.key);
  if (!options_.wrapped) return std::vector<uint8_t>(given.begin(), given.begin() + static_cast<long>(bytes));
  const Login* login = login_of(uid);
  if (!login)
    return Error{EINVAL, "the device takes wrapped keys only, and those during a crypto login only"};
  constexpr size_t kWrapBytes = 8;
  auto key = engine::unwrap_key(options_.import_keks.at(login->import_kek), given.first(bytes + kWrapBytes));
  if (!key) return Error{EINVAL, "the key is not wrapped with the import KEK of the crypto login"};
  return std::move(*key);
}

Expected<uint32_t> ProtectionDevice::create_dek(uint16_t uid, const prm::DekSpec& spec) {
  if (Outcome sound = check_pd(uid, spec.pd); !sound) return sound.error();
  const std::lock_guard hold(lock_);
  Expected<std::vector<uint8_t>> key = bare_key(uid, spec);
  if (!key) return key.error();
  const size_t pair_bytes = spec.keys_of_256_bits ? 64 : 32;
  const uint32_t number = deks_.size() < size_t{1} << kLogDeksMax ? dek_numbers_.take() : 0;
  if (number == 0) return Error{ENOMEM, "the device has no room for another data encryption key"};
  Dek& dek = deks_[number];
  dek.maker = uid;
  dek.pd = spec.pd;
  dek.was_wrapped = options_.wrapped;
  dek.opaque = spec.opaque;
  dek.keytag.assign(key->begin() + static_cast<long>(pair_bytes), key->end());
  dek.cipher = std::make_shared<const engine::AesXts>(std::span(*key).first(pair_bytes));
  return number;
}

Expected<uint64_t> ProtectionDevice::query_dek(uint16_t uid, uint32_t number) {
  const std::lock_guard hold(lock_);
  const auto found = deks_.find(number);
  if (found == deks_.end() || found->second.maker != uid) return nobodys(kDek, number);
  if (found->second.was_wrapped && !login_of(uid))
    return Error{EINVAL, "a key that came wrapped can be asked for during a crypto login only"};
  return found->second.opaque;
}

Outcome ProtectionDevice::destroy_dek(uint16_t uid, uint32_t number) {
  const std::lock_guard hold(lock_);
  return remove(deks_, dek_numbers_, uid, number, kDek);
}

Expected<uint32_t> ProtectionDevice::create_login(uint16_t uid, const prm::LoginSpec& spec) {
  if (!options_.wrapped) return Error{EOPNOTSUPP, "the device takes keys in plain text and knows no logins"};
  const auto kek = options_.import_keks.find(spec.import_kek);
  if (kek == options_.import_keks.end())
    return Error{EINVAL, "the device has no import KEK of number " + std::to_string(spec.import_kek)};
  const auto credential = options_.credentials.find(spec.credential);
  if (credential == options_.credentials.end())
    return Error{EINVAL, "the device has no credential of number " + std::to_string(spec.credential)};
  const auto shown = engine::unwrap_key(kek->second, spec.wrapped);
  if (!shown) return Error{EINVAL, "the credential is not wrapped with the import KEK"};
  if (*shown != credential->second) return Error{EINVAL, "the credential is not the device's"};
  const std::lock_guard hold(lock_);
  if (login_of(uid)) return Error{EBUSY, "the context has a crypto login already"};
  const uint32_t number = login_numbers_.take();
  logins_[number] = {uid, spec.import_kek};
  return number;
}

// Neither an import KEK nor a credential is deleted while the device is open.
Expected<bool> ProtectionDevice::query_login(uint16_t uid, uint32_t number) {
  const std::lock_guard hold(lock_);
  const auto found = logins_.find(number);
  if (found == logins_.end() || found->second.maker != uid) return nobodys(kLogin, number);
  return true;
}

Outcome ProtectionDevice::destroy_login(uint16_t uid, uint32_t number) {
  const std::lock_guard hold(lock_);
  return remove(logins_, login_numbers_, uid, number, kLogin);
}

Expected<std::vector<uint32_t>> ProtectionDevice::create_psvs(uint16_t uid, uint32_t pd, uint32_t count) {
  if (Outcome sound = check_pd(uid, pd); !sound) return sound.error();
  const std::lock_guard hold(lock_);
  if (psvs_.size() + count > kPsvsMax) return Error{ENOMEM, "the device has no signature values left"};
  std::vector<uint32_t> made;
  for (uint32_t i = 0; i < count; i++) {
    made.push_back(psv_numbers_.take());
    psvs_[made.back()] = {uid, pd};
  }
  return made;
}

Outcome ProtectionDevice::destroy_psv(uint16_t uid, uint32_t number) {
  const std::lock_guard hold(lock_);
  return remove(psvs_, psv_numbers_, uid, number, kPsv);
}

bool ProtectionDevice::has_some_of(uint16_t uid) const {
  const std::lock_guard hold(lock_);
  const auto in = [uid](const auto& table) {
    return std::ranges::any_of(table, [uid](const auto& entry) { return entry.second.maker == uid; });
  };
  return in(deks_) || in(logins_) || in(psvs_);
}

Dek ProtectionDevice::find_dek(uint32_t number, uint32_t pd) const {
  const std::lock_guard hold(lock_);
  const auto found = deks_.find(number);
  return found != deks_.end() && found->second.pd == pd ? found->second : Dek{};
}

bool ProtectionDevice::has_psv(uint32_t number, uint32_t pd) const {
  const std::lock_guard hold(lock_);
  const auto found = psvs_.find(number);
  return found != psvs_.end() && found->second.pd == pd;
}

}  // namespace verbatim::connectx
