// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "abi/prm/memory.h"
#include "device/connectx/prm/fake_unit_test.h"
#include "engine/status.h"

namespace verbatim::prm {
namespace {

struct Keys : ::testing::Test {
  FakeUnit unit;
  std::vector<uint8_t> in = input_of(CreateMkey::kOpcode, 0, CreateMkeyIn::kBits / 8), out;
  Writer<CreateMkeyIn> create{in};
  Writer<Mkc> context = create[CreateMkeyIn::memory_key_mkey_entry];

  void SetUp() override {
    create.set(CreateMkeyIn::mkey_umem_valid, true);
    create.set(CreateMkeyIn::mkey_umem_id, 0x123);
    create.set(CreateMkeyIn::mkey_umem_offset, 0x100002000);
    context.set(Mkc::access_mode_1_0, MkeyAccessMode::kMtt);
    context.set(Mkc::qpn, 0xffffff);
    context.set(Mkc::mkey_7_0, 0x42);
    context.set(Mkc::pd, 0xabc);
    context.set(Mkc::start_addr, 0x7fff00001000);
    context.set(Mkc::len, 0x200000000);
    context.set(Mkc::lw, true);
    context.set(Mkc::rr, true);
  }
  Status run(const std::vector<uint8_t>& box, size_t bytes) {
    out.assign(bytes, 0xa5);
    return command_table().execute(unit, box, out).result.status;
  }
  Status make() { return run(in, CreateMkeyOut::kBits / 8); }
};

TEST_F(Keys, AreMadeAsTheContextSays) {
  ASSERT_EQ(make(), Status::kOk);
  EXPECT_EQ(unit.mkey_.umem, 0x123u);
  EXPECT_EQ(unit.mkey_.umem_offset, 0x100002000u);
  EXPECT_EQ(unit.mkey_.variant, 0x42);
  EXPECT_EQ(unit.mkey_.pd, 0xabcu);
  EXPECT_EQ(unit.mkey_.start, 0x7fff00001000u);
  EXPECT_EQ(unit.mkey_.length, 0x200000000u);
  EXPECT_EQ(unit.mkey_.access, engine::kLocalWrite | engine::kRemoteRead);
}

TEST_F(Keys, AreShownAsTheyWereMade) {
  ASSERT_EQ(make(), Status::kOk);
  const uint32_t index = View<CreateMkeyOut>(out)[CreateMkeyOut::mkey_index];
  std::vector<uint8_t> query = input_of(QueryMkey::kOpcode, 0, QueryMkeyIn::kBits / 8);
  Writer<QueryMkeyIn>(query).set(QueryMkeyIn::mkey_index, index);
  ASSERT_EQ(run(query, QueryMkeyOut::kBits / 8), Status::kOk);
  const auto shown = View<QueryMkeyOut>(out)[QueryMkeyOut::memory_key_mkey_entry];
  EXPECT_EQ(shown[Mkc::start_addr], 0x7fff00001000u);
  EXPECT_EQ(shown[Mkc::len], 0x200000000u);
  EXPECT_EQ(shown[Mkc::mkey_7_0], 0x42u);
  EXPECT_TRUE(shown[Mkc::lr] && shown[Mkc::lw] && shown[Mkc::rr]);
  EXPECT_FALSE(shown[Mkc::rw] || shown[Mkc::a]);
  std::vector<uint8_t> destroy = input_of(DestroyMkey::kOpcode, 0, DestroyMkeyIn::kBits / 8);
  Writer<DestroyMkeyIn>(destroy).set(DestroyMkeyIn::mkey_index, index);
  EXPECT_EQ(run(destroy, DestroyMkeyOut::kBits / 8), Status::kOk);
  EXPECT_EQ(run(destroy, DestroyMkeyOut::kBits / 8), Status::kBadResErr);
}

TEST_F(Keys, OfOtherKindsAreRefused) {
  for (const Field<Mkc, 1> field : {Mkc::free, Mkc::bsf_en, Mkc::length64}) {
    context.set(field, true);
    EXPECT_EQ(make(), Status::kBadParamErr) << field.offset;
    context.set(field, false);
  }
  for (const auto mode : {MkeyAccessMode::kPa, MkeyAccessMode::kKlms, MkeyAccessMode::kSwIcm}) {
    context.set(Mkc::access_mode_1_0, static_cast<uint32_t>(mode) & 3);
    context.set(Mkc::access_mode_4_2, static_cast<uint32_t>(mode) >> 2);
    EXPECT_EQ(make(), Status::kBadParamErr) << static_cast<uint32_t>(mode);
  }
  context.set(Mkc::access_mode_4_2, 0);
  context.set(Mkc::access_mode_1_0, MkeyAccessMode::kMtt);
  context.set(Mkc::qpn, 7);
  EXPECT_EQ(make(), Status::kOk);
  EXPECT_EQ(unit.mkey_.queue, 7u);
  context.set(Mkc::qpn, 0xffffff);
  EXPECT_EQ(make(), Status::kOk);
  EXPECT_EQ(unit.mkey_.queue, 0u);
  create.set(CreateMkeyIn::mkey_umem_valid, false);
  EXPECT_EQ(make(), Status::kBadParamErr);
}

TEST_F(Keys, MayStandForOthers) {
  create.set(CreateMkeyIn::mkey_umem_valid, false);
  context.set(Mkc::access_mode_1_0, MkeyAccessMode::kKlms);
  context.set(Mkc::free, true);
  context.set(Mkc::umr_en, true);
  context.set(Mkc::en_rinval, true);
  context.set(Mkc::translations_octword_size, 8);
  ASSERT_EQ(make(), Status::kOk);
  EXPECT_EQ(unit.mkey_.access, engine::kIndirect | engine::kFreeKey | engine::kUpdatable |
                                   engine::kRemoteInvalidate | engine::kLocalWrite | engine::kRemoteRead);
  EXPECT_EQ(unit.mkey_.room, 8u);
  EXPECT_EQ(unit.mkey_.log_entry_size, 0);
  EXPECT_TRUE(unit.mkey_.list.empty());
  create.set(CreateMkeyIn::translations_octword_actual_size, 2);
  EXPECT_EQ(make(), Status::kBadParamErr) << "the list is not in the mailbox";
  std::vector<uint8_t> longer = in;
  for (uint8_t i = 0; i < 32; i++) longer.push_back(i);
  ASSERT_EQ(run(longer, CreateMkeyOut::kBits / 8), Status::kOk);
  ASSERT_EQ(unit.mkey_.list.size(), 32u);
  EXPECT_EQ(unit.mkey_.list[31], 31);
  const Writer<CreateMkeyIn> box(longer);
  const auto key = box[CreateMkeyIn::memory_key_mkey_entry];
  key.set(Mkc::translations_octword_size, 1);
  EXPECT_EQ(run(longer, CreateMkeyOut::kBits / 8), Status::kBadParamErr) << "longer than the key is to have";
  key.set(Mkc::translations_octword_size, 1u << 20);
  EXPECT_EQ(run(longer, CreateMkeyOut::kBits / 8), Status::kBadParamErr) << "longer than any";
}

TEST_F(Keys, MayStandForOthersOfOneSize) {
  create.set(CreateMkeyIn::mkey_umem_valid, false);
  context.set(Mkc::access_mode_1_0, MkeyAccessMode::kKsm);
  context.set(Mkc::translations_octword_size, 8);
  EXPECT_EQ(make(), Status::kBadParamErr) << "of which size?";
  context.set(Mkc::log_page_size, 63);
  EXPECT_EQ(make(), Status::kBadParamErr);
  context.set(Mkc::log_page_size, 21);
  ASSERT_EQ(make(), Status::kOk);
  EXPECT_EQ(unit.mkey_.log_entry_size, 21);
}

}  // namespace
}  // namespace verbatim::prm
