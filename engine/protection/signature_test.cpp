// SPDX-License-Identifier: MIT
#include "engine/protection/signature.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace verbatim::engine {
namespace {

using Kind = SignatureKind;

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

uint64_t field_of(Kind kind, bool ones, std::span<const uint8_t> data) {
  SignatureDomain domain;
  domain.kind = kind;
  domain.block_bytes = static_cast<uint32_t>(data.size());
  domain.seed_ones = ones;
  return make_field(domain, 0, data);
}

// The check values under which these are catalogued: of "123456789".
TEST(Signature, HasTheCataloguedValues) {
  const auto data = bytes_of("123456789");
  EXPECT_EQ(field_of(Kind::kT10Crc, false, data) >> 48, 0xd0dbu);
  EXPECT_EQ(field_of(Kind::kCrc32, true, data) >> 32, 0xfc891918u);
  EXPECT_EQ(field_of(Kind::kCrc32c, true, data) >> 32, 0x839206e3u) << "e3069283, lowest byte first";
  EXPECT_EQ(field_of(Kind::kCrc64Xp10, true, data), 0x8898790a86148baeu) << "ae8b14860a799888, likewise";
}

// Recorded from a ConnectX: 512 bytes of a5.
TEST(Signature, HasTheValuesOfADevice) {
  std::vector<uint8_t> data(512, 0xa5);
  EXPECT_EQ(field_of(Kind::kT10Crc, false, data) >> 48, 0x9ec6u);
  EXPECT_EQ(field_of(Kind::kT10Crc, true, data) >> 48, 0xec7du);
  EXPECT_EQ(field_of(Kind::kCrc32, false, data) >> 32, 0x699aca21u);
  EXPECT_EQ(field_of(Kind::kCrc32c, false, data) >> 32, 0x4207e6b4u);
  EXPECT_EQ(field_of(Kind::kCrc64Xp10, false, data), 0x8c8adb450cce85aau);
  data[0] = 0x5a;
  EXPECT_EQ(field_of(Kind::kT10Crc, true, data) >> 48, 0x9916u);
  EXPECT_EQ(field_of(Kind::kCrc32, false, data) >> 32, 0xe33cb35au);
}

// The header of RFC 1071's readers: its checksum is b861.
TEST(Signature, SumsAsIpDoes) {
  const uint8_t header[] = {0x45, 0, 0,    0x73, 0, 0, 0x40, 0,    0x40, 0x11,
                            0,    0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,    0xc7};
  EXPECT_EQ(field_of(Kind::kT10Checksum, false, header) >> 48, 0xb861u);
  EXPECT_EQ(field_of(Kind::kT10Checksum, true, header) >> 48, 0xb861u) << "all ones are zero, too";
  const uint8_t odd[] = {1, 2, 3};
  EXPECT_EQ(field_of(Kind::kT10Checksum, false, odd) >> 48, 0xfbfdu);
}

TEST(Signature, TagsFollowTheGuard) {
  SignatureDomain domain{Kind::kT10Crc, 8, false, 0xabcd, 0x01234567, true};
  const std::vector<uint8_t> data(8);
  EXPECT_EQ(make_field(domain, 0, data), 0x0000'abcd'0123'4567u);
  EXPECT_EQ(make_field(domain, 5, data) & 0xffffffff, 0x0123456cu);
  domain.ref_tag_grows = false;
  EXPECT_EQ(make_field(domain, 5, data) & 0xffffffff, 0x01234567u);
  uint8_t memory[8];
  store_field(0x1122334455667788, memory, 8);
  EXPECT_EQ(memory[0], 0x11);
  EXPECT_EQ(memory[7], 0x88);
  EXPECT_EQ(load_field(domain, memory), 0x1122334455667788u);
  domain.kind = Kind::kCrc32c;
  EXPECT_EQ(load_field(domain, memory), 0x1122334400000000u);
}

TEST(Signature, MasksCountFromTheFirstByte) {
  EXPECT_EQ(field_mask(0), 0u);
  EXPECT_EQ(field_mask(0xc0), 0xffff'0000'0000'0000u);
  EXPECT_EQ(field_mask(0x11), 0x0000'00ff'0000'00ffu);
  EXPECT_EQ(part_mask({Kind::kCrc32}, SignaturePart::kGuard), 0xffff'ffff'0000'0000u);
  EXPECT_EQ(part_mask({Kind::kCrc64Xp10}, SignaturePart::kGuard), UINT64_MAX);
  EXPECT_EQ(part_mask({Kind::kCrc32}, SignaturePart::kRefTag), 0u);
  EXPECT_EQ(part_mask({Kind::kNone}, SignaturePart::kGuard), 0u);
}

TEST(Signature, EscapesByItsTags) {
  SignatureDomain domain{Kind::kT10Crc, 512};
  EXPECT_FALSE(escapes(domain, UINT64_MAX));
  domain.escape = SignatureDomain::Escape::kAppTag;
  EXPECT_TRUE(escapes(domain, 0x0000'ffff'0000'0000));
  EXPECT_FALSE(escapes(domain, 0x0000'fffe'ffff'ffff));
  domain.escape = SignatureDomain::Escape::kAppAndRefTag;
  EXPECT_FALSE(escapes(domain, 0x0000'ffff'0000'0000));
  EXPECT_TRUE(escapes(domain, 0x0000'ffff'ffff'ffff));
  domain.kind = Kind::kCrc64Xp10;
  EXPECT_FALSE(escapes(domain, UINT64_MAX));
}

}  // namespace
}  // namespace verbatim::engine
