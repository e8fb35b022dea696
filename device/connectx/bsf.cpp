// SPDX-License-Identifier: MIT
#include "device/connectx/bsf.h"

#include <algorithm>
#include <cstring>

#include "device/connectx/protection_device.h"

namespace verbatim::connectx {

namespace {

using engine::SignatureDomain;
using engine::SignatureKind;
using engine::SignatureSide;

/// Fails every access, for a reason.
class Barrier final : public engine::DataTransform {
 public:
  explicit Barrier(const char* why) : why_(why) {}
  uint64_t wire_length(uint64_t memory_length) const override { return memory_length; }
  const char* to_wire(Memory&, uint64_t, void*, size_t) override { return why_; }
  const char* to_memory(Memory&, uint64_t, const void*, size_t, bool) override { return why_; }

 private:
  const char* const why_;
};

const char* decode_t10(const InlineSignature& in, SignatureDomain& domain) {
  if (in.guard_kind != kGuardCrc && in.guard_kind != kGuardChecksum)
    return "the byte stream format has an unknown kind of T10-DIF guard";
  if (!(in.repeat_seed & kInlineRepeats)) return "signatures over a whole transaction are not offered";
  if (in.app_tag_mask != UINT16_MAX) return "application tags that are checked in part are not offered";
  domain.kind = in.guard_kind == kGuardCrc ? SignatureKind::kT10Crc : SignatureKind::kT10Checksum;
  domain.seed_ones = (in.repeat_seed & kInlineSeedOnes) != 0;
  domain.app_tag = in.app_tag;
  domain.ref_tag = in.ref_tag;
  domain.ref_tag_grows = (in.tag_rules & kRefTagGrows) != 0;
  domain.escape = in.tag_rules & kAppAndRefTagEscape ? SignatureDomain::Escape::kAppAndRefTag
                  : in.tag_rules & kAppTagEscapes    ? SignatureDomain::Escape::kAppTag
                                                     : SignatureDomain::Escape::kNone;
  return nullptr;
}

const char* decode_crc(uint8_t format, SignatureDomain& domain) {
  switch (format & ~(kFormatRepeats | kFormatSeedZeros)) {
    case kFormatCrc32:
      domain.kind = SignatureKind::kCrc32;
      break;
    case kFormatCrc32c:
      domain.kind = SignatureKind::kCrc32c;
      break;
    case kFormatCrc64Xp10:
      domain.kind = SignatureKind::kCrc64Xp10;
      break;
    default:
      return "the byte stream format has an unknown kind of CRC";
  }
  if (!(format & kFormatRepeats)) return "signatures over a whole transaction are not offered";
  domain.seed_ones = !(format & kFormatSeedZeros);
  return nullptr;
}

struct SideBits {
  uint32_t format_psv;
  const InlineSignature& inline_signature;
  uint8_t block;
};

const char* decode_side(const SideBits& bits, const ProtectionDevice& device, uint32_t pd,
                        SignatureDomain& domain) {
  const auto format = static_cast<uint8_t>(bits.format_psv >> kFormatShift);
  const bool t10 = (bits.inline_signature.flags & kInlineValid) != 0;
  if (format == 0 && !t10) return nullptr;
  if (const char* why = format != 0 ? decode_crc(format, domain) : decode_t10(bits.inline_signature, domain))
    return why;
  if (!device.has_psv(bits.format_psv & kPsvMask, pd))
    return "the byte stream format names a signature value (PSV) that its protection domain does not have";
  domain.block_bytes = block_bytes(bits.block);
  return domain.block_bytes != 0 ? nullptr : "the byte stream format has an unknown block size";
}

const char* decode_signatures(const SignatureBsf& bsf, const ProtectionDevice& device, uint32_t pd,
                              engine::BlockSignatures& made) {
  const bool same = (bsf.size_same & kBsfSameStructure) != 0;
  SignatureDomain memory, wire;
  if (const char* why =
          decode_side({bsf.memory_format_psv, bsf.memory, bsf.memory_block}, device, pd, memory))
    return why;
  const uint8_t wire_block = same ? bsf.memory_block : bsf.wire_block_copy;
  if (const char* why = decode_side({bsf.wire_format_psv, bsf.wire, wire_block}, device, pd, wire))
    return why;
  const uint8_t copy_mask = same ? bsf.wire_block_copy : uint8_t{0};
  made = engine::BlockSignatures(memory, wire, bsf.check_mask, copy_mask);
  return nullptr;
}

const char* decode_crypto(const CryptoBsf& bsf, const ProtectionDevice& device, uint32_t pd,
                          engine::UnitCipher& made, const char*& fails) {
  if (bsf.standard != kStandardAesXts) return "the byte stream format has an unknown encryption standard";
  if (bsf.order > kRawMemory) return "the byte stream format has an unknown order of encryption";
  made.unit_bytes = block_bytes(bsf.unit);
  if (made.unit_bytes == 0) return "the byte stream format has an unknown size of data units";
  made.side = bsf.order == kWireAndItsSignature || bsf.order == kRawMemory ? SignatureSide::kWire
                                                                           : SignatureSide::kMemory;
  made.encrypts_to_wire = bsf.order == kWireAndItsSignature || bsf.order == kRawWire;
  std::reverse_copy(std::begin(bsf.first_number), std::end(bsf.first_number), made.first_number.begin());
  const Dek dek = device.find_dek(bsf.dek & kPsvMask, pd);
  if (!dek.cipher) return "the byte stream format names a data encryption key that its domain does not have";
  made.cipher = dek.cipher;
  if (!dek.keytag.empty() && !std::equal(dek.keytag.begin(), dek.keytag.end(), std::begin(bsf.keytag)))
    fails = "the key tag that the memory key was given is not the data encryption key's";
  return nullptr;
}

}  // namespace

const char* decode_bsf(std::span<const std::byte> bytes, const ProtectionDevice& device, uint32_t pd,
                       std::shared_ptr<engine::DataTransform>& made) {
  static_assert(sizeof(SignatureBsf) == sizeof(CryptoBsf));
  constexpr size_t kEach = sizeof(SignatureBsf);
  if (bytes.size() != kEach && bytes.size() != 2 * kEach)
    return "a byte stream format has 64 bytes, for signatures and for encryption each";
  engine::BlockSignatures signatures;
  std::optional<engine::UnitCipher> cipher;
  const char* fails = nullptr;
  for (size_t at = 0; at < bytes.size(); at += kEach) {
    SignatureBsf first;
    std::memcpy(&first, bytes.data() + at, kEach);
    if ((first.size_same & 0xf) == kBsfCrypto) {
      CryptoBsf second;
      std::memcpy(&second, bytes.data() + at, kEach);
      if (const char* why = decode_crypto(second, device, pd, cipher.emplace(), fails)) return why;
    } else if (at == 0) {
      if (const char* why = decode_signatures(first, device, pd, signatures)) return why;
    } else {
      return "the second part of a byte stream format is for encryption";
    }
  }
  if (fails)
    made = std::make_shared<Barrier>(fails);
  else
    made = std::make_shared<engine::Protection>(signatures, std::move(cipher));
  return nullptr;
}

std::optional<engine::SignatureFault> take_fault(engine::DataTransform& transform) {
  auto* protection = dynamic_cast<engine::Protection*>(&transform);
  return protection ? protection->take_fault() : std::nullopt;
}

void expect_signature_error(engine::DataTransform& transform) {
  if (auto* protection = dynamic_cast<engine::Protection*>(&transform)) protection->arm();
}

std::shared_ptr<engine::DataTransform> unconfigured_crypto() {
  static const auto made = std::make_shared<Barrier>(
      "the memory key was made for encryption and has not been told how to encrypt");
  return made;
}

}  // namespace verbatim::connectx
