// SPDX-License-Identifier: MIT
#pragma once

// Byte stream formats (BSF): the part of a memory key update that says which signatures and which encryption
// a key has, and the request that sets a signature value (PSV).

#include <cstddef>

#include "device/connectx/formats.h"

namespace verbatim::connectx {

/// T10-DIF parameters of one side.
struct InlineSignature {
  Be16 flags;
  Be16 app_tag;
  Be32 ref_tag;
  uint8_t guard_kind;
  uint8_t repeat_seed;
  uint8_t reserved[3];
  uint8_t tag_rules;
  Be16 app_tag_mask;
};
inline constexpr uint16_t kInlineValid = 1 << 15, kInlineRefresh = 1 << 14;
inline constexpr uint8_t kGuardCrc = 1, kGuardChecksum = 2;
inline constexpr uint8_t kInlineRepeats = 1 << 7, kInlineSeedOnes = 1 << 3;
inline constexpr uint8_t kRefTagGrows = 1 << 6, kAppTagEscapes = 1 << 0, kAppAndRefTagEscape = 1 << 1;

struct SignatureBsf {
  uint8_t size_same;  ///< kind of the whole 7..6, same structure on both sides 4
  uint8_t check_mask;
  uint8_t wire_block_copy;  ///< with the same structure the copy mask, else the wire's block size
  uint8_t memory_block;
  Be32 raw_bytes;        ///< data that the key has at most
  Be32 wire_format_psv;  ///< CRC kind 31..24, signature value 23..0
  Be32 memory_format_psv;
  uint8_t transaction[16];
  InlineSignature wire, memory;
};
inline constexpr uint8_t kBsfKindShift = 6;
inline constexpr uint8_t kBsfAlone = 2, kBsfSignatureAndCrypto = 3;
inline constexpr uint8_t kBsfSameStructure = 1 << 4;
inline constexpr uint8_t kFormatCrc32 = 0x20, kFormatCrc32c = 0x40, kFormatCrc64Xp10 = 0x50;
inline constexpr uint8_t kFormatRepeats = 2, kFormatSeedZeros = 1;
inline constexpr uint32_t kFormatShift = 24, kPsvMask = 0xffffff;

struct CryptoBsf {
  uint8_t kind;   ///< as SignatureBsf::size_same, with kBsfCrypto
  uint8_t order;  ///< CryptoOrder
  uint8_t reserved0;
  uint8_t standard;
  Be32 raw_bytes;
  uint8_t unit;  ///< block size
  uint8_t reserved1[7];
  uint8_t first_number[16];  ///< of the first data unit, highest byte first
  Be32 dek;
  uint8_t reserved2[4];
  uint8_t keytag[8];
  uint8_t reserved3[16];
};
inline constexpr uint8_t kBsfCrypto = 1;
inline constexpr uint8_t kStandardAesXts = 0;
/// What is encrypted, and so where the cipher works.
enum CryptoOrder : uint8_t {
  kWireAndItsSignature = 0,    ///< between signatures and wire, encrypts what is sent
  kMemoryAndItsSignature = 1,  ///< between memory and signatures, decrypts what is sent
  kRawWire = 2,                ///< between memory and signatures, encrypts what is sent
  kRawMemory = 3,              ///< between signatures and wire, decrypts what is sent
};

static_assert(sizeof(InlineSignature) == 16 && sizeof(SignatureBsf) == 64 && sizeof(CryptoBsf) == 64);
static_assert(offsetof(SignatureBsf, wire) == 32 && offsetof(CryptoBsf, first_number) == 16 &&
              offsetof(CryptoBsf, keytag) == 40);

struct BlockSize {
  uint8_t code;
  uint32_t bytes;
};
inline constexpr BlockSize kBlockSizes[] = {{1, 512}, {2, 520}, {3, 4096}, {4, 4160}, {6, 4048}};

/// The code of a block size, and the other way round; 0: there is none.
constexpr uint8_t block_code(uint32_t bytes) {
  for (const BlockSize& each : kBlockSizes)
    if (each.bytes == bytes) return each.code;
  return 0;
}
constexpr uint32_t block_bytes(uint8_t code) {
  for (const BlockSize& each : kBlockSizes)
    if (each.code == code) return each.bytes;
  return 0;
}

/// What follows the control segment of SET_PSV.
struct SetPsvSegment {
  Be32 psv;
  Be16 syndrome;
  uint8_t reserved[2];
  Be64 value;
};
static_assert(sizeof(SetPsvSegment) == 16);

}  // namespace verbatim::connectx
