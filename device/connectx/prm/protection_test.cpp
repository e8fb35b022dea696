// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <vector>

#include "abi/prm/capabilities.h"
#include "abi/prm/crypto.h"
#include "abi/prm/memory.h"
#include "device/connectx/prm/capabilities.h"
#include "device/connectx/prm/fake_unit_test.h"

namespace verbatim::prm {
namespace {

struct Protections : ::testing::Test {
  FakeUnit unit;
  std::vector<uint8_t> in, out;

  template <class Spec>
  Writer<typename Spec::In> input() {
    in = input_of(Spec::kOpcode, Spec::kMod, Spec::In::kBits / 8);
    return Writer<typename Spec::In>(in);
  }
  template <class Spec>
  Status run() {
    out.assign(Spec::Out::kBits / 8, 0xa5);
    return command_table().execute(unit, in, out).result.status;
  }
};

TEST_F(Protections, KeysAreMadeAsTheMailboxSays) {
  const auto object = input<CreateDek>()[CreateEncryptionKeyObjIn::key_obj];
  object.set(EncryptionKeyObj::key_size, DekSize::k256);
  object.set(EncryptionKeyObj::key_purpose, DekPurpose::kAesXts);
  object.set(EncryptionKeyObj::has_keytag, true);
  object.set(EncryptionKeyObj::pd, 0xabc);
  object.set(EncryptionKeyObj::opaque, 0x64656b0000000000);
  for (size_t i = 0; i < 128; i++) object.set(EncryptionKeyObj::key, i, i + 1);
  ASSERT_EQ(run<CreateDek>(), Status::kOk);
  EXPECT_EQ(View<GeneralObjOutCmdHdr>(out)[GeneralObjOutCmdHdr::obj_id], FakeProtection::kNumber);
  const DekSpec& dek = unit.protection_.dek_;
  EXPECT_TRUE(dek.keys_of_256_bits && dek.has_keytag);
  EXPECT_EQ(dek.pd, 0xabcu);
  EXPECT_EQ(dek.key[0], 1);
  EXPECT_EQ(dek.key[127], 128);
  EXPECT_EQ(in[16 + 64], 1) << "512 bits into the object";

  input<QueryDek>().set(GeneralObjInCmdHdr::obj_id, FakeProtection::kNumber);
  ASSERT_EQ(run<QueryDek>(), Status::kOk);
  EXPECT_EQ(View<QueryEncryptionKeyObjOut>(out)[QueryEncryptionKeyObjOut::obj][EncryptionKeyObj::opaque],
            0x64656b0000000000u);
  input<QueryDek>();
  EXPECT_EQ(run<QueryDek>(), Status::kBadResErr);
}

TEST_F(Protections, KeysOfOtherKindsAreRefused) {
  const auto object = input<CreateDek>()[CreateEncryptionKeyObjIn::key_obj];
  EXPECT_EQ(run<CreateDek>(), Status::kBadParamErr) << "no purpose";
  object.set(EncryptionKeyObj::key_purpose, DekPurpose::kAesXts);
  object.set(EncryptionKeyObj::key_size, 2);
  EXPECT_EQ(run<CreateDek>(), Status::kBadParamErr);
  object.set(EncryptionKeyObj::key_size, DekSize::k128);
  object.set(EncryptionKeyObj::sw_wrapped, true);
  EXPECT_EQ(run<CreateDek>(), Status::kBadParamErr);
}

TEST_F(Protections, LoginsCarryTheWrappedCredential) {
  const auto object = input<CreateCryptoLogin>()[CreateCryptoLoginObjIn::login_obj];
  object.set(CryptoLoginObj::credential_pointer, 3);
  object.set(CryptoLoginObj::session_import_kek_ptr, 4);
  for (size_t i = 0; i < 12; i++) object.set(CryptoLoginObj::credential, i, 0x01020304);
  ASSERT_EQ(run<CreateCryptoLogin>(), Status::kOk);
  const LoginSpec& login = unit.protection_.login_;
  EXPECT_EQ(login.credential, 3u);
  EXPECT_EQ(login.import_kek, 4u);
  for (size_t i = 0; i < login.wrapped.size(); i++) EXPECT_EQ(login.wrapped[i], i % 4 + 1);
  unit.protection_.valid_ = false;
  input<QueryCryptoLogin>().set(GeneralObjInCmdHdr::obj_id, FakeProtection::kNumber);
  ASSERT_EQ(run<QueryCryptoLogin>(), Status::kOk);
  EXPECT_EQ(View<QueryCryptoLoginObjOut>(out)[QueryCryptoLoginObjOut::obj][CryptoLoginObj::state], 1u);
}

TEST_F(Protections, SignatureValuesComeUpToFourAtATime) {
  input<CreatePsv>().set(CreatePsvIn::num_psv, 4);
  ASSERT_EQ(run<CreatePsv>(), Status::kOk);
  const View<CreatePsvOut> made(out);
  EXPECT_EQ(made[CreatePsvOut::psv0_index], FakeProtection::kNumber);
  EXPECT_EQ(made[CreatePsvOut::psv3_index], FakeProtection::kNumber + 3);
  for (const uint32_t count : {0, 5, 15}) {
    input<CreatePsv>().set(CreatePsvIn::num_psv, count);
    EXPECT_EQ(run<CreatePsv>(), Status::kBadParamErr) << count;
  }
}

TEST_F(Protections, AreCapabilities) {
  unit.protection_.facts_ = {true, 16, 8, 7, 2, 3};
  input<QueryHcaCap>().set(QueryHcaCapIn::op_mod, static_cast<uint32_t>(CapabilityGroup::kCrypto) << 1);
  ASSERT_EQ(run<QueryHcaCap>(), Status::kOk);
  const auto caps = View<QueryHcaCapOut>(out)[QueryHcaCapOut::capability][HcaCapUnion::crypto_caps];
  EXPECT_TRUE(caps[CryptoCaps::wrapped_crypto_operational]);
  EXPECT_EQ(caps[CryptoCaps::wrapped_import_method], 1u);
  EXPECT_EQ(caps[CryptoCaps::log_max_num_deks], 16u);
  EXPECT_EQ(caps[CryptoCaps::num_nv_import_keks], 2u);
  EXPECT_EQ(caps[CryptoCaps::num_nv_credentials], 3u);
}

}  // namespace
}  // namespace verbatim::prm
