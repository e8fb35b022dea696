// SPDX-License-Identifier: MIT
// Data encryption keys, crypto logins and signature values.
#include "abi/prm/crypto.h"
#include "abi/prm/memory.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"

namespace verbatim::prm {

namespace {

Result create_dek(Command<CreateDek>& c) {
  const auto object = c.in[CreateEncryptionKeyObjIn::key_obj];
  if (object.as<DekPurpose>(EncryptionKeyObj::key_purpose) != DekPurpose::kAesXts)
    return refuse(Status::kBadParamErr, "data encryption keys are for AES-XTS only");
  const auto size = object.as<DekSize>(EncryptionKeyObj::key_size);
  if (size != DekSize::k128 && size != DekSize::k256)
    return refuse(Status::kBadParamErr, "a data encryption key has two halves of 128 or 256 bits each");
  if (object[EncryptionKeyObj::sw_wrapped])
    return refuse(Status::kBadParamErr, "keys that the driver itself has wrapped are not offered");
  DekSpec spec;
  spec.keys_of_256_bits = size == DekSize::k256;
  spec.pd = object[EncryptionKeyObj::pd];
  spec.has_keytag = object[EncryptionKeyObj::has_keytag];
  spec.opaque = object[EncryptionKeyObj::opaque];
  for (size_t i = 0; i < spec.key.size(); i++)
    spec.key[i] = static_cast<uint8_t>(object.at(EncryptionKeyObj::key, i));
  const Expected<uint32_t> number = c.unit.protection().create_dek(c.uid, spec);
  if (!number) return refuse(number.error());
  c.out.set(GeneralObjOutCmdHdr::obj_id, *number);
  return {};
}

Result query_dek(Command<QueryDek>& c) {
  const Expected<uint64_t> opaque = c.unit.protection().query_dek(c.uid, c.in[GeneralObjInCmdHdr::obj_id]);
  if (!opaque) return refuse(opaque.error());
  const auto object = c.out[QueryEncryptionKeyObjOut::obj];
  object.set(EncryptionKeyObj::state, DekState::kReady);
  object.set(EncryptionKeyObj::key_purpose, DekPurpose::kAesXts);
  object.set(EncryptionKeyObj::opaque, *opaque);
  return {};
}

Result destroy_dek(Command<DestroyDek>& c) {
  return result_of(c.unit.protection().destroy_dek(c.uid, c.in[GeneralObjInCmdHdr::obj_id]));
}

Result create_login(Command<CreateCryptoLogin>& c) {
  const auto object = c.in[CreateCryptoLoginObjIn::login_obj];
  LoginSpec spec;
  spec.credential = object[CryptoLoginObj::credential_pointer];
  spec.import_kek = object[CryptoLoginObj::session_import_kek_ptr];
  for (size_t i = 0; i < spec.wrapped.size(); i++)
    spec.wrapped[i] =
        static_cast<uint8_t>(object.at(CryptoLoginObj::credential, i / 4) >> (24 - 8 * (i % 4)));
  const Expected<uint32_t> number = c.unit.protection().create_login(c.uid, spec);
  if (!number) return refuse(number.error());
  c.out.set(GeneralObjOutCmdHdr::obj_id, *number);
  return {};
}

Result query_login(Command<QueryCryptoLogin>& c) {
  const Expected<bool> valid = c.unit.protection().query_login(c.uid, c.in[GeneralObjInCmdHdr::obj_id]);
  if (!valid) return refuse(valid.error());
  c.out[QueryCryptoLoginObjOut::obj].set(CryptoLoginObj::state,
                                         *valid ? CryptoLoginState::kValid : CryptoLoginState::kInvalid);
  return {};
}

Result destroy_login(Command<DestroyCryptoLogin>& c) {
  return result_of(c.unit.protection().destroy_login(c.uid, c.in[GeneralObjInCmdHdr::obj_id]));
}

Result create_psv(Command<CreatePsv>& c) {
  constexpr Field<CreatePsvOut, 24> kNumbers[] = {CreatePsvOut::psv0_index, CreatePsvOut::psv1_index,
                                                  CreatePsvOut::psv2_index, CreatePsvOut::psv3_index};
  const uint32_t count = c.in[CreatePsvIn::num_psv];
  if (count == 0 || count > std::size(kNumbers))
    return refuse(Status::kBadParamErr, "one to four signature values can be made at a time");
  const auto numbers = c.unit.protection().create_psvs(c.uid, c.in[CreatePsvIn::pd], count);
  if (!numbers) return refuse(numbers.error());
  for (size_t i = 0; i < numbers->size(); i++) c.out.set(kNumbers[i], (*numbers)[i]);
  return {};
}

Result destroy_psv(Command<DestroyPsv>& c) {
  return result_of(c.unit.protection().destroy_psv(c.uid, c.in[DestroyPsvIn::psvn]));
}

}  // namespace

std::span<const Entry> protection_commands() {
  static constexpr Entry kEntries[] = {
      entry<create_dek>(),  entry<query_dek>(),     entry<destroy_dek>(), entry<create_login>(),
      entry<query_login>(), entry<destroy_login>(), entry<create_psv>(),  entry<destroy_psv>(),
  };
  return kEntries;
}

}  // namespace verbatim::prm
