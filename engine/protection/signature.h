// SPDX-License-Identifier: MIT
#pragma once

// Integrity fields: what a storage device puts behind each block of data so that damage on the way shows.
//
// A field of up to 8 bytes is held in a 64-bit number whose highest byte is the field's first byte in memory.
// One bit of a byte mask stands for one of these bytes, bit 7 for the first.

#include <cstdint>
#include <span>

namespace verbatim::engine {

enum class SignatureKind : uint8_t {
  kNone,
  kT10Crc,       ///< T10-DIF: CRC-16 of T10, application tag, reference tag
  kT10Checksum,  ///< the same with an IP checksum as guard
  kCrc32,        ///< polynomial 04C11DB7, highest bit first, complemented; big-endian
  kCrc32c,       ///< Castagnoli (RFC 3720), lowest bit first, complemented; little-endian
  kCrc64Xp10,    ///< polynomial AD93D23594C93659, lowest bit first, complemented; little-endian
};

/// The fields of the data on one side of a transfer.
struct SignatureDomain {
  enum class Escape : uint8_t { kNone, kAppTag, kAppAndRefTag };

  SignatureKind kind = SignatureKind::kNone;
  uint32_t block_bytes = 0;  ///< data before each field; not 0 unless `kind` is kNone
  bool seed_ones = false;    ///< checks start from all ones instead of all zeros
  // T10-DIF alone.
  uint16_t app_tag = 0;
  uint32_t ref_tag = 0;  ///< of the first block
  bool ref_tag_grows = false;
  Escape escape = Escape::kNone;  ///< which tags of all ones make a block one that is not checked

  bool none() const { return kind == SignatureKind::kNone; }
  bool is_t10() const { return kind == SignatureKind::kT10Crc || kind == SignatureKind::kT10Checksum; }
  uint32_t field_bytes() const;
  /// Whether fields of both can be told apart byte by byte: same place, same meaning.
  bool same_structure(const SignatureDomain& other) const;
};

/// The field of block `index` over `data`.
uint64_t make_field(const SignatureDomain& domain, uint64_t index, std::span<const uint8_t> data);
uint64_t load_field(const SignatureDomain& domain, const uint8_t* at);
/// Writes the first `bytes` bytes of it.
void store_field(uint64_t field, uint8_t* at, uint32_t bytes);
/// A byte mask as a mask of a field.
uint64_t field_mask(uint8_t byte_mask);
/// Whether the field says by its tags that the block is not to be checked.
bool escapes(const SignatureDomain& domain, uint64_t field);

enum class SignaturePart : uint8_t { kGuard, kAppTag, kRefTag };
/// The part of a T10-DIF field, or all of another kind, as a mask.
uint64_t part_mask(const SignatureDomain& domain, SignaturePart part);

enum class SignatureSide : uint8_t { kWire, kMemory };

/// A field that did not verify.
struct SignatureFault {
  SignatureSide side{};
  SignaturePart part{};
  uint64_t found = 0;     ///< the field as it was
  uint64_t computed = 0;  ///< the field as it should have been
  uint64_t offset = 0;    ///< of the block's last byte, field included, on that side
};

}  // namespace verbatim::engine
