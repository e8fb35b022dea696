// SPDX-License-Identifier: MIT
// Queue entries that change memory keys: what they stand for, whose they are, how they are protected.
#include "device/connectx/bsf_format.h"
#include "tests/fuzz/raw_queues.h"

namespace verbatim::fuzz {

using connectx::kSegmentUnit;

namespace {

constexpr uint64_t kRights = connectx::kUmrMaskLocalWrite | connectx::kUmrMaskRemoteWrite |
                             connectx::kUmrMaskRemoteRead | connectx::kUmrMaskAtomic;
constexpr uint32_t kFormatUnits = sizeof(connectx::SignatureBsf) / kSegmentUnit;
constexpr uint8_t kBlockCodes[] = {1, 2, 3, 4, 6};
constexpr uint8_t kCrcs[] = {connectx::kFormatCrc32, connectx::kFormatCrc32c, connectx::kFormatCrc64Xp10};

/// What a side has: T10-DIF, a CRC or nothing.
void describe_side(Random& random, uint32_t value, connectx::InlineSignature& t10, connectx::Be32& format) {
  const uint32_t kind = random.below(3);
  if (kind == 1)
    format = (kCrcs[random.below(3)] | connectx::kFormatRepeats | random.below(2)) << connectx::kFormatShift |
             value;
  if (kind != 2) return;
  format = value;
  t10.flags = connectx::kInlineValid | connectx::kInlineRefresh;
  t10.app_tag = static_cast<uint16_t>(random.next());
  t10.ref_tag = random.below(1000);
  t10.guard_kind = random.one_in(2) ? connectx::kGuardCrc : connectx::kGuardChecksum;
  t10.repeat_seed = connectx::kInlineRepeats | (random.one_in(2) ? connectx::kInlineSeedOnes : 0);
  t10.tag_rules = static_cast<uint8_t>(random.next());
  t10.app_tag_mask = UINT16_MAX;
}

connectx::SignatureBsf signatures(Random& random, const Memories& memories, bool with_encryption) {
  connectx::SignatureBsf format{};
  const uint8_t kind = with_encryption ? connectx::kBsfSignatureAndCrypto : connectx::kBsfAlone;
  format.size_same = static_cast<uint8_t>(kind << connectx::kBsfKindShift);
  if (random.one_in(2)) format.size_same |= connectx::kBsfSameStructure;
  format.check_mask = static_cast<uint8_t>(random.next());
  format.memory_block = kBlockCodes[random.below(5)];
  format.wire_block_copy = kBlockCodes[random.below(5)];
  format.raw_bytes = 1u << 20;
  describe_side(random, memories.value(0), format.wire, format.wire_format_psv);
  describe_side(random, memories.value(1), format.memory, format.memory_format_psv);
  return format;
}

connectx::CryptoBsf encryption(Random& random, const Memories& memories, bool with_signatures) {
  connectx::CryptoBsf format{};
  const uint8_t kind = with_signatures ? connectx::kBsfSignatureAndCrypto : connectx::kBsfAlone;
  format.kind = static_cast<uint8_t>(kind << connectx::kBsfKindShift | connectx::kBsfCrypto);
  format.order = static_cast<uint8_t>(random.below(4));
  format.raw_bytes = 1u << 20;
  format.unit = kBlockCodes[random.below(5)];
  random.fill(format.first_number, sizeof format.first_number);
  format.dek = memories.encryption_key();
  return format;
}

}  // namespace

// A local invalidate, or a new meaning for a key: its list here or in memory, or something wrong about it.
uint32_t RawQueues::build_update(uint32_t index, uint32_t unit, Memories& memories, uint32_t which) {
  constexpr uint32_t kInlineMax = 36, kListMax = 64;
  const bool protectable = which == Memories::kProtected || which == Memories::kEncrypted;
  const uint32_t formats = !protectable || random_.one_in(4) ? 0 : kFormatUnits * (1 + random_.below(2));
  const bool in_line = formats != 0 || random_.one_in(2);
  const uint32_t most = which == Memories::kWindow ? 1 : protectable ? 16 : in_line ? kInlineMax : kListMax;
  const uint32_t count = random_.one_in(3) ? 0 : 1 + random_.below(most);
  connectx::UmrControlSegment update{};
  connectx::UmrKeySegment key{};
  uint64_t mask = connectx::kUmrMaskFree | connectx::kUmrMaskVariant;
  if (in_line) update.flags = connectx::kUmrInline;
  if (count == 0 && formats == 0) key.free = connectx::kUmrKeyFree;
  update.klm_octowords = static_cast<uint16_t>(count);
  if (count > 0) {
    mask |= connectx::kUmrMaskLength | kRights;
    key.length = random_.below(64 << 10);
    key.access = static_cast<uint8_t>(random_.one_in(4) ? random_.next() : 0xff);
  }
  if (formats != 0) {
    mask |= connectx::kUmrMaskBsf;
    if (random_.one_in(4)) mask |= connectx::kUmrMaskSignatureErrors;
    key.flags_pd = connectx::kUmrKeyBsf | (random_.below(2) << connectx::kUmrKeyErrorCountShift);
    update.translation_offset = static_cast<uint16_t>(formats);
  }
  // A window is the queue pair's own, others are everybody's.
  uint32_t owner = connectx::kUmrAnyQp;
  if (which == Memories::kWindow && random_.one_in(2)) mask |= connectx::kUmrMaskQpn, owner = qp_->number;
  key.qpn_variant = owner << 8 | (wrong(16) ? random_.below(256) : 0);
  if (wrong(8)) update.flags |= connectx::kUmrOffset;
  if (wrong(8)) update.flags |= static_cast<uint8_t>(random_.below(4) << connectx::kUmrCheckShift);
  if (wrong(8)) update.translation_offset = static_cast<uint16_t>(random_.below(80));
  update.key_mask = mask;
  if (wrong(16)) random_.fill(&update, sizeof update);
  if (wrong(16)) random_.fill(&key, sizeof key);
  write_units(index, unit, &update, sizeof update);
  unit += sizeof update / kSegmentUnit;
  write_units(index, unit, &key, sizeof key);
  unit += sizeof key / kSegmentUnit;
  if (formats != 0) return build_formats(index, build_list(index, unit, count, memories), memories, formats);
  if (in_line || count == 0) return build_list(index, unit, count, memories);
  const connectx::DataSegment where = data_segment(memories, kListMax * kSegmentUnit);
  write_units(index, unit++, &where, sizeof where);
  return unit;
}

// Signatures, encryption, or both.
uint32_t RawQueues::build_formats(uint32_t index, uint32_t unit, const Memories& memories,
                                  uint32_t octowords) {
  const bool both = octowords > kFormatUnits, encrypts = !both && random_.one_in(3);
  if (!encrypts) {
    connectx::SignatureBsf format = signatures(random_, memories, both);
    if (wrong(8)) random_.fill(&format, sizeof format);
    write_units(index, unit, &format, sizeof format);
    unit += kFormatUnits;
  }
  if (encrypts || both) {
    connectx::CryptoBsf format = encryption(random_, memories, both);
    if (wrong(8)) random_.fill(&format, sizeof format);
    write_units(index, unit, &format, sizeof format);
    unit += kFormatUnits;
  }
  return unit;
}

uint32_t RawQueues::build_value(uint32_t index, uint32_t unit, const Memories& memories) {
  connectx::SetPsvSegment segment{};
  segment.psv = wrong(4) ? random_.below(64) : memories.value(random_.below(Memories::kValues));
  segment.value = random_.next();
  if (wrong(8)) random_.fill(&segment, sizeof segment);
  write_units(index, unit, &segment, sizeof segment);
  return unit + sizeof segment / kSegmentUnit;
}

}  // namespace verbatim::fuzz
