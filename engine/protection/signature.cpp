// SPDX-License-Identifier: MIT
#include "engine/protection/signature.h"

#include <bit>
#include <cstring>

#include "engine/protection/crc.h"

namespace verbatim::engine {

namespace {

constexpr uint64_t kGuardMask = 0xffff'0000'0000'0000;
constexpr uint64_t kAppTagMask = 0x0000'ffff'0000'0000;
constexpr uint64_t kRefTagMask = 0x0000'0000'ffff'ffff;

/// RFC 1071, over big-endian words; an odd last byte counts as the high one.
uint16_t ip_checksum(uint16_t seed, std::span<const uint8_t> data) {
  uint64_t sum = seed;
  size_t i = 0;
  for (; i + 1 < data.size(); i += 2) sum += static_cast<uint32_t>(data[i] << 8 | data[i + 1]);
  if (i < data.size()) sum += static_cast<uint32_t>(data[i] << 8);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

template <class T>
T seed_of(const SignatureDomain& domain) {
  return static_cast<T>(domain.seed_ones ? ~T{0} : T{0});
}

uint64_t t10_field(const SignatureDomain& domain, uint64_t index, std::span<const uint8_t> data) {
  const auto seed = seed_of<uint16_t>(domain);
  const uint64_t guard =
      domain.kind == SignatureKind::kT10Crc ? Crc16T10::run(seed, data) : ip_checksum(seed, data);
  const uint32_t ref_tag = domain.ref_tag + (domain.ref_tag_grows ? static_cast<uint32_t>(index) : 0);
  return guard << 48 | static_cast<uint64_t>(domain.app_tag) << 32 | ref_tag;
}

}  // namespace

uint32_t SignatureDomain::field_bytes() const {
  switch (kind) {
    case SignatureKind::kNone:
      return 0;
    case SignatureKind::kCrc32:
    case SignatureKind::kCrc32c:
      return 4;
    case SignatureKind::kT10Crc:
    case SignatureKind::kT10Checksum:
    case SignatureKind::kCrc64Xp10:
      return 8;
  }
  return 0;
}

bool SignatureDomain::same_structure(const SignatureDomain& other) const {
  return !none() && block_bytes == other.block_bytes && (kind == other.kind || (is_t10() && other.is_t10()));
}

uint64_t make_field(const SignatureDomain& domain, uint64_t index, std::span<const uint8_t> data) {
  switch (domain.kind) {
    case SignatureKind::kNone:
      return 0;
    case SignatureKind::kT10Crc:
    case SignatureKind::kT10Checksum:
      return t10_field(domain, index, data);
    case SignatureKind::kCrc32:
      return static_cast<uint64_t>(~Crc32::run(seed_of<uint32_t>(domain), data)) << 32;
    case SignatureKind::kCrc32c:
      return static_cast<uint64_t>(__builtin_bswap32(~Crc32Castagnoli::run(seed_of<uint32_t>(domain), data)))
             << 32;
    case SignatureKind::kCrc64Xp10:
      return __builtin_bswap64(~Crc64Xp10::run(seed_of<uint64_t>(domain), data));
  }
  return 0;
}

uint64_t load_field(const SignatureDomain& domain, const uint8_t* at) {
  uint64_t field = 0;
  std::memcpy(&field, at, domain.field_bytes());
  return std::endian::native == std::endian::little ? __builtin_bswap64(field) : field;
}

void store_field(uint64_t field, uint8_t* at, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i++) at[i] = static_cast<uint8_t>(field >> (56 - 8 * i));
}

uint64_t field_mask(uint8_t byte_mask) {
  uint64_t mask = 0;
  for (uint32_t bit = 0; bit < 8; bit++)
    if (byte_mask >> bit & 1) mask |= uint64_t{0xff} << (8 * bit);
  return mask;
}

bool escapes(const SignatureDomain& domain, uint64_t field) {
  if (!domain.is_t10() || (field & kAppTagMask) != kAppTagMask) return false;
  switch (domain.escape) {
    case SignatureDomain::Escape::kNone:
      return false;
    case SignatureDomain::Escape::kAppTag:
      return true;
    case SignatureDomain::Escape::kAppAndRefTag:
      return (field & kRefTagMask) == kRefTagMask;
  }
  return false;
}

uint64_t part_mask(const SignatureDomain& domain, SignaturePart part) {
  if (domain.none()) return 0;
  if (!domain.is_t10())
    return part == SignaturePart::kGuard ? ~(UINT64_MAX >> (8 * domain.field_bytes() - 1) >> 1) : 0;
  switch (part) {
    case SignaturePart::kGuard:
      return kGuardMask;
    case SignaturePart::kAppTag:
      return kAppTagMask;
    case SignaturePart::kRefTag:
      return kRefTagMask;
  }
  return 0;
}

}  // namespace verbatim::engine
