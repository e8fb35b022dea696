// SPDX-License-Identifier: MIT
#include "tests/conformance/signature_fields.h"

#include <algorithm>

namespace verbatim::conformance {

namespace {

uint64_t mirrored(uint64_t value, uint32_t bits) {
  uint64_t made = 0;
  for (uint32_t i = 0; i < bits; i++) {
    made = made << 1 | (value & 1);
    value >>= 1;
  }
  return made;
}

/// A CRC of `bits` bits from all ones, complemented unless it is T10's; bytes enter lowest bit first or
/// highest.
uint64_t crc(std::span<const uint8_t> data, uint32_t bits, uint64_t polynomial, bool lowest_first,
             bool complement) {
  const uint64_t top = uint64_t{1} << (bits - 1), all = top | (top - 1);
  uint64_t value = all;
  for (const uint8_t byte : data) {
    value ^= (lowest_first ? mirrored(byte, 8) : byte) << (bits - 8);
    for (int i = 0; i < 8; i++) {
      const bool out = (value & top) != 0;
      value = (value << 1) & all;
      if (out) value ^= polynomial;
    }
  }
  if (complement) value ^= all;
  return lowest_first ? mirrored(value, bits) : value;
}

/// In the order in which the bytes lie in memory, the first one highest.
uint64_t swapped(uint64_t value, uint32_t bits) { return __builtin_bswap64(value) >> (64 - bits); }

uint64_t ip_checksum(std::span<const uint8_t> data) {
  uint32_t sum = 0xffff;
  for (size_t i = 0; i < data.size(); i += 2) {
    sum += static_cast<uint32_t>(data[i] << 8 | data[i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return ~sum & 0xffff;
}

}  // namespace

uint64_t Fields::guard(std::span<const uint8_t> block) const {
  switch (kind) {
    case Kind::kNone:
      return 0;
    case Kind::kT10Crc:
      return crc(block, 16, 0x8bb7, false, false);
    case Kind::kT10Checksum:
      return ip_checksum(block);
    case Kind::kCrc32:
      return crc(block, 32, 0x04c11db7, false, true);
    case Kind::kCrc32c:
      return swapped(crc(block, 32, 0x1edc6f41, true, true), 32);
    case Kind::kCrc64:
      return swapped(crc(block, 64, 0xad93d23594c93659, true, true), 64);
  }
  return 0;
}

Bytes Fields::put_into(const Bytes& data) const {
  if (kind == Kind::kNone) return data;
  Bytes out;
  for (size_t at = 0; at < data.size(); at += block_bytes()) {
    const auto block = std::span(data).subspan(at, std::min(block_bytes(), data.size() - at));
    out.insert(out.end(), block.begin(), block.end());
    if (block.size() < block_bytes()) break;
    uint64_t field = guard(block);
    if (is_t10()) {
      const auto index = static_cast<uint32_t>(at / block_bytes());
      const uint32_t ref = ref_tag + (flags & MLX5DV_SIG_T10DIF_FLAG_REF_REMAP ? index : 0);
      field = field << 48 | uint64_t{app_tag} << 32 | ref;
    }
    for (size_t i = field_bytes(); i-- > 0;) out.push_back(static_cast<uint8_t>(field >> (8 * i)));
  }
  return out;
}

const mlx5dv_sig_block_domain* Signature::tell(const Fields& fields, Domain& domain) {
  using Kind = Fields::Kind;
  if (fields.kind == Kind::kNone) return nullptr;
  domain.told.block_size = fields.size;
  if (fields.is_t10()) {
    domain.dif = {fields.kind == Kind::kT10Crc ? MLX5DV_SIG_T10DIF_CRC : MLX5DV_SIG_T10DIF_CSUM, 0xffff,
                  fields.app_tag, fields.ref_tag, fields.flags};
    domain.told.sig_type = MLX5DV_SIG_TYPE_T10DIF;
    domain.told.sig.dif = &domain.dif;
  } else {
    domain.crc.type = fields.kind == Kind::kCrc32    ? MLX5DV_SIG_CRC_TYPE_CRC32
                      : fields.kind == Kind::kCrc32c ? MLX5DV_SIG_CRC_TYPE_CRC32C
                                                     : MLX5DV_SIG_CRC_TYPE_CRC64_XP10;
    domain.crc.seed = UINT64_MAX;
    domain.told.sig_type = MLX5DV_SIG_TYPE_CRC;
    domain.told.sig.crc = &domain.crc;
  }
  return &domain.told;
}

Signature::Signature(const Fields& memory, const Fields& wire) {
  attr.mem = tell(memory, memory_);
  attr.wire = tell(wire, wire_);
  attr.check_mask = 0xff;
}

}  // namespace verbatim::conformance
