// SPDX-License-Identifier: MIT
// Setters of a memory key's signatures and encryption. What they say goes behind the key's list when the
// update is complete, as byte stream formats (BSF); signatures are followed by requests of their own that set
// the values (PSV) which they start from.
#include <algorithm>

#include "device/connectx/bsf_format.h"
#include "lib/mlx5/key_update.h"
#include "lib/mlx5/protection.h"

namespace verbatim::mlx5 {
namespace {

using connectx::CryptoBsf;
using connectx::InlineSignature;
using connectx::SignatureBsf;
using Kind = SignatureSettings::Kind;

constexpr uint32_t kBlockBytes[] = {512, 520, 4048, 4096, 4160};  ///< by mlx5dv_block_size

bool is_block_size(mlx5dv_block_size size) { return static_cast<uint32_t>(size) < std::size(kBlockBytes); }
uint8_t code_of(mlx5dv_block_size size) { return connectx::block_code(kBlockBytes[size]); }

uint64_t seed_mask(const mlx5dv_sig_crc& crc) {
  return crc.type == MLX5DV_SIG_CRC_TYPE_CRC64_XP10 ? UINT64_MAX : UINT32_MAX;
}

bool sound(const mlx5dv_sig_t10dif& dif) {
  constexpr uint32_t kFlags = MLX5DV_SIG_T10DIF_FLAG_REF_REMAP | MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE |
                              MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE;
  return (dif.bg_type == MLX5DV_SIG_T10DIF_CRC || dif.bg_type == MLX5DV_SIG_T10DIF_CSUM) &&
         (dif.bg == 0 || dif.bg == UINT16_MAX) && (dif.flags & ~kFlags) == 0;
}

bool sound(const mlx5dv_sig_crc& crc) {
  const bool known = crc.type == MLX5DV_SIG_CRC_TYPE_CRC32 || crc.type == MLX5DV_SIG_CRC_TYPE_CRC32C ||
                     crc.type == MLX5DV_SIG_CRC_TYPE_CRC64_XP10;
  const uint64_t seed = crc.seed & seed_mask(crc);
  return known && (seed == 0 || seed == seed_mask(crc));
}

/// Takes over one side's settings. False: they make no sense.
bool read_side(const mlx5dv_sig_block_domain* from, SignatureSettings& to) {
  to = {};
  if (from == nullptr) return true;
  if (from->comp_mask != 0 || !is_block_size(from->block_size)) return false;
  to.block_size = from->block_size;
  switch (from->sig_type) {
    case MLX5DV_SIG_TYPE_T10DIF:
      if (from->sig.dif == nullptr || !sound(*from->sig.dif)) return false;
      to.kind = Kind::kT10Dif;
      to.dif = *from->sig.dif;
      return true;
    case MLX5DV_SIG_TYPE_CRC:
      if (from->sig.crc == nullptr || !sound(*from->sig.crc)) return false;
      to.kind = Kind::kCrc;
      to.crc = *from->sig.crc;
      return true;
  }
  return false;
}

/// Whether both sides have the same structure; then `copied` is what of a field passes unchanged.
bool alike(const SignatureSettings& a, const SignatureSettings& b, uint8_t& copied) {
  if (a.kind == Kind::kNone || a.kind != b.kind || a.block_size != b.block_size) return false;
  copied = 0;
  if (a.kind == Kind::kCrc) {
    copied =
        a.crc.type == MLX5DV_SIG_CRC_TYPE_CRC64_XP10 ? MLX5DV_SIG_MASK_CRC64_XP10 : MLX5DV_SIG_MASK_CRC32;
    return a.crc.type == b.crc.type;
  }
  if (a.dif.bg_type == b.dif.bg_type && a.dif.bg == b.dif.bg) copied |= MLX5DV_SIG_MASK_T10DIF_GUARD;
  if (a.dif.app_tag == b.dif.app_tag) copied |= MLX5DV_SIG_MASK_T10DIF_APPTAG;
  if (a.dif.ref_tag == b.dif.ref_tag) copied |= MLX5DV_SIG_MASK_T10DIF_REFTAG;
  return true;
}

void wr_set_mkey_sig_block(mlx5dv_qp_ex* direct, const mlx5dv_sig_block_attr* wanted) {
  QueuePair& qp = QueuePair::of(direct);
  if (!takes_setter(qp)) return;
  KeySignatures* signatures = qp.batch.key->signatures.get();
  if (signatures == nullptr || signatures->setting == Setting::kNew) return fail(qp, EINVAL);
  SignatureSettings memory, wire;
  uint8_t unused;
  const bool copies = (wanted->flags & MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK) != 0;
  if ((wanted->mem == nullptr && wanted->wire == nullptr) || wanted->comp_mask != 0 ||
      (wanted->flags & ~uint32_t{MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK}) != 0 ||
      !read_side(wanted->mem, memory) || !read_side(wanted->wire, wire) ||
      (copies && !alike(memory, wire, unused)))
    return fail(qp, EINVAL);
  signatures->memory = memory;
  signatures->wire = wire;
  signatures->flags = wanted->flags;
  signatures->check_mask = wanted->check_mask;
  signatures->copy_mask = wanted->copy_mask;
  signatures->setting = Setting::kNew;
  note_setter(qp);
}

void wr_set_mkey_crypto(mlx5dv_qp_ex* direct, const mlx5dv_crypto_attr* wanted) {
  QueuePair& qp = QueuePair::of(direct);
  if (!takes_setter(qp)) return;
  KeyEncryption* encryption = qp.batch.key->encryption.get();
  const auto order = wanted->signature_crypto_order;
  if (encryption == nullptr || encryption->setting == Setting::kNew || wanted->comp_mask != 0 ||
      wanted->dek == nullptr || wanted->crypto_standard != MLX5DV_CRYPTO_STANDARD_AES_XTS ||
      !is_block_size(wanted->data_unit_size) ||
      (order != MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX &&
       order != MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_BEFORE_CRYPTO_ON_TX))
    return fail(qp, EINVAL);
  encryption->attributes = *wanted;
  encryption->setting = Setting::kNew;
  note_setter(qp);
}

void write_t10(const mlx5dv_sig_t10dif& from, InlineSignature& to) {
  to.flags = uint16_t{connectx::kInlineValid | connectx::kInlineRefresh};
  to.app_tag = from.app_tag;
  to.ref_tag = from.ref_tag;
  to.guard_kind = from.bg_type == MLX5DV_SIG_T10DIF_CRC ? connectx::kGuardCrc : connectx::kGuardChecksum;
  to.repeat_seed = connectx::kInlineRepeats;
  if (from.bg != 0) to.repeat_seed |= connectx::kInlineSeedOnes;
  if ((from.flags & MLX5DV_SIG_T10DIF_FLAG_REF_REMAP) != 0) to.tag_rules |= connectx::kRefTagGrows;
  if ((from.flags & MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE) != 0)
    to.tag_rules |= connectx::kAppAndRefTagEscape;
  else if ((from.flags & MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE) != 0)
    to.tag_rules |= connectx::kAppTagEscapes;
  to.app_tag_mask = uint16_t{UINT16_MAX};
}

uint8_t format_of(const mlx5dv_sig_crc& crc) {
  const uint8_t kind = crc.type == MLX5DV_SIG_CRC_TYPE_CRC32    ? connectx::kFormatCrc32
                       : crc.type == MLX5DV_SIG_CRC_TYPE_CRC32C ? connectx::kFormatCrc32c
                                                                : connectx::kFormatCrc64Xp10;
  return kind | connectx::kFormatRepeats |
         ((crc.seed & seed_mask(crc)) == 0 ? connectx::kFormatSeedZeros : 0);
}

/// One side; nothing if it has no signature.
void write_side(const SignatureSettings& from, uint32_t psv, connectx::Be32& format_psv,
                InlineSignature& in_line) {
  if (from.kind == Kind::kNone) return;
  const uint32_t format = from.kind == Kind::kCrc ? format_of(from.crc) : 0u;
  format_psv = format << connectx::kFormatShift | psv;
  if (from.kind == Kind::kT10Dif) write_t10(from.dif, in_line);
}

SignatureBsf signature_bsf(const KeySignatures& from, bool with_crypto) {
  SignatureBsf bsf{};
  bsf.size_same = (with_crypto ? connectx::kBsfSignatureAndCrypto : connectx::kBsfAlone)
                  << connectx::kBsfKindShift;
  bsf.raw_bytes = uint32_t{UINT32_MAX};
  if (from.setting != Setting::kSet && from.setting != Setting::kNew) return bsf;
  bsf.check_mask = from.check_mask;
  write_side(from.memory, from.memory_psv, bsf.memory_format_psv, bsf.memory);
  write_side(from.wire, from.wire_psv, bsf.wire_format_psv, bsf.wire);
  if (from.memory.kind != Kind::kNone) bsf.memory_block = code_of(from.memory.block_size);
  uint8_t copied = 0;
  if (alike(from.memory, from.wire, copied)) {
    bsf.size_same |= connectx::kBsfSameStructure;
    bsf.wire_block_copy = (from.flags & MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK) != 0 ? from.copy_mask : copied;
  } else if (from.wire.kind != Kind::kNone) {
    bsf.wire_block_copy = code_of(from.wire.block_size);
  }
  return bsf;
}

connectx::CryptoOrder order_of(const mlx5dv_crypto_attr& attributes) {
  const bool after =
      attributes.signature_crypto_order == MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX;
  if (attributes.encrypt_on_tx) return after ? connectx::kRawWire : connectx::kWireAndItsSignature;
  return after ? connectx::kMemoryAndItsSignature : connectx::kRawMemory;
}

CryptoBsf crypto_bsf(const mlx5dv_crypto_attr& from, bool with_signatures) {
  CryptoBsf bsf{};
  bsf.kind = (with_signatures ? connectx::kBsfSignatureAndCrypto : connectx::kBsfAlone)
                 << connectx::kBsfKindShift |
             connectx::kBsfCrypto;
  bsf.order = order_of(from);
  bsf.standard = connectx::kStandardAesXts;
  bsf.raw_bytes = uint32_t{UINT32_MAX};
  bsf.unit = code_of(from.data_unit_size);
  std::reverse_copy(std::begin(from.initial_tweak), std::end(from.initial_tweak),
                    std::begin(bsf.first_number));
  bsf.dek = from.dek->number;
  std::copy(std::begin(from.keytag), std::end(from.keytag), std::begin(bsf.keytag));
  return bsf;
}

uint64_t start_value(const SignatureSettings& side) {
  if (side.kind == Kind::kT10Dif)
    return uint64_t{side.dif.bg} << 48 | uint64_t{side.dif.app_tag} << 32 | side.dif.ref_tag;
  return side.crc.type == MLX5DV_SIG_CRC_TYPE_CRC64_XP10 ? side.crc.seed : side.crc.seed << 32;
}

void set_psv(QueuePair& qp, uint32_t number, uint64_t value) {
  if (!begin_request(qp, connectx::kOpSetPsv, 0)) return;
  current_slot(qp).special = MLX5DV_WC_UMR;
  connectx::SetPsvSegment segment{};
  segment.psv = number;
  segment.value = value;
  append(qp, segment);
  end_request(qp);
  qp.fence_next = true;
}

/// Ends the update without a completion, and has the last of the requests that set the values give it.
void finish_with_psvs(QueuePair& qp, const KeySignatures& signatures) {
  auto& head = *reinterpret_cast<connectx::ControlSegment*>(qp.block_at(qp.block));
  head.flags = static_cast<uint8_t>(head.flags & ~connectx::kCompletionAlways);
  end_request(qp);
  const bool memory = signatures.memory.kind != Kind::kNone, wire = signatures.wire.kind != Kind::kNone;
  const unsigned int wanted = qp.ex.wr_flags;
  if (memory && wire) qp.ex.wr_flags &= ~static_cast<unsigned int>(IBV_SEND_SIGNALED);
  if (memory) set_psv(qp, signatures.memory_psv, start_value(signatures.memory));
  qp.ex.wr_flags = wanted;
  if (wire) set_psv(qp, signatures.wire_psv, start_value(signatures.wire));
}

/// Tells the device from which error on it shall report the next. False: it knows.
bool tell_error_count(QueuePair& qp, MemoryKey& key) {
  KeySignatures& signatures = *key.signatures;
  const std::lock_guard hold(ContextState::of(*key.context).signature_lock);
  if (!signatures.count_changed) return false;
  control_of(qp).key_mask = control_of(qp).key_mask | connectx::kUmrMaskSignatureErrors;
  own(qp).flags_pd = own(qp).flags_pd | (signatures.error_count & 1) << connectx::kUmrKeyErrorCountShift;
  signatures.count_changed = false;
  return true;
}

/// Whether the formats fit behind what the entry has, and are known to the device as the key is.
int check_formats(QueuePair& qp, const MemoryKey& key, bool with_crypto, uint32_t units) {
  if (units > units_max(qp) - qp.batch.units) return ENOMEM;
  if (own(qp).length > UINT32_MAX) return EINVAL;
  if (!with_crypto || !key.signatures) return 0;
  // Beside encryption of the raw side only one side can have signatures.
  const connectx::CryptoOrder order = order_of(key.encryption->attributes);
  const bool raw = order == connectx::kRawWire || order == connectx::kRawMemory;
  const KeySignatures& signatures = *key.signatures;
  return raw && signatures.memory.kind != Kind::kNone && signatures.wire.kind != Kind::kNone ? EINVAL : 0;
}

void write_formats(QueuePair& qp, const MemoryKey& key) {
  const bool with_crypto = key.encryption && key.encryption->setting != Setting::kNone;
  constexpr uint32_t kUnits = sizeof(SignatureBsf) / kUnit;
  const uint32_t units = (key.signatures ? kUnits : 0) + (with_crypto ? kUnits : 0);
  if (const int error = check_formats(qp, key, with_crypto, units)) return fail(qp, error);
  if (key.signatures) append(qp, signature_bsf(*key.signatures, with_crypto));
  if (with_crypto) append(qp, crypto_bsf(key.encryption->attributes, key.signatures != nullptr));
  control_of(qp).translation_offset = static_cast<uint16_t>(units);
  control_of(qp).key_mask = control_of(qp).key_mask | connectx::kUmrMaskBsf;
  own(qp).flags_pd = own(qp).flags_pd | connectx::kUmrKeyBsf;
}

}  // namespace

void begin_protection(MemoryKey& key, const mlx5dv_mkey_conf_attr& wanted) {
  const auto settle = [](Setting setting) {
    if (setting == Setting::kNew) return Setting::kSet;
    return setting == Setting::kDropped ? Setting::kNone : setting;
  };
  if (key.encryption) key.encryption->setting = settle(key.encryption->setting);
  if (!key.signatures) return;
  key.signatures->setting = settle(key.signatures->setting);
  if ((wanted.conf_flags & MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR) == 0) return;
  key.signatures->memory = key.signatures->wire = {};
  key.signatures->setting = Setting::kDropped;
}

void finish_protection(QueuePair& qp) {
  MemoryKey& key = *qp.batch.key;
  KeySignatures* signatures = key.signatures.get();
  const bool new_count = signatures != nullptr && tell_error_count(qp, key);
  const bool new_signatures = signatures != nullptr && signatures->setting == Setting::kNew;
  const bool without = signatures != nullptr && !new_signatures && signatures->setting != Setting::kSet;
  const bool new_encryption = key.encryption && key.encryption->setting == Setting::kNew;
  const bool dropped = signatures != nullptr && signatures->setting == Setting::kDropped && key.encryption;
  if (new_signatures || new_encryption || dropped)
    write_formats(qp, key);
  else if (without && !key.encryption)
    control_of(qp).key_mask = control_of(qp).key_mask | connectx::kUmrMaskBsf;  // and the key has none
  if (qp.batch.error != 0) return;
  if (new_signatures || (new_count && signatures->setting == Setting::kSet))
    finish_with_psvs(qp, *signatures);
  else
    end_request(qp);
}

void install_protection_builders(mlx5dv_qp_ex& ex) {
  ex.wr_set_mkey_sig_block = wr_set_mkey_sig_block;
  ex.wr_set_mkey_crypto = wr_set_mkey_crypto;
}

}  // namespace verbatim::mlx5
