// SPDX-License-Identifier: MIT
// Keys with signatures or encryption: what they need of the device, and the errors that they report.
#include "lib/mlx5/key_protection.h"

#include <mutex>
#include <new>

#include "abi/prm/memory.h"
#include "lib/mlx5/completion.h"
#include "lib/mlx5/memory_key.h"
#include "lib/mlx5/protection.h"
#include "lib/mlx5/typed_command.h"

namespace verbatim::mlx5 {
namespace {

using connectx::SignatureErrorCqe;
using Kind = SignatureSettings::Kind;

// It cannot fail: the number is the device's own.
void destroy_psv(verbs::Context& context, uint32_t number) {
  devx::TypedCommand<prm::DestroyPsv> command;
  command.in().set(prm::DestroyPsvIn::psvn, number);
  (void)command.send(context);
}

int make_signatures(MemoryKey& key, uint32_t pd) {
  devx::TypedCommand<prm::CreatePsv> command;
  command.in().set(prm::CreatePsvIn::pd, pd);
  command.in().set(prm::CreatePsvIn::num_psv, 2);
  if (const int error = command.send(*key.context)) return error;
  key.signatures.reset(new (std::nothrow) KeySignatures);
  if (key.signatures == nullptr) return ENOMEM;
  key.signatures->memory_psv = command.out()[prm::CreatePsvOut::psv0_index];
  key.signatures->wire_psv = command.out()[prm::CreatePsvOut::psv1_index];
  return 0;
}

/// The value of the part that is wrong.
uint64_t value_of(uint16_t syndrome, const SignatureSettings& side, uint32_t high, uint32_t low) {
  if ((syndrome & connectx::kBadRefTag) != 0) return low;
  if ((syndrome & connectx::kBadAppTag) != 0) return high & 0xffff;
  if (side.kind == Kind::kT10Dif) return high >> 16;
  return side.crc.type == MLX5DV_SIG_CRC_TYPE_CRC64_XP10 ? uint64_t{high} << 32 | low : high;
}

uint64_t block_stride(const SignatureSettings& side) {
  constexpr uint64_t kBlockBytes[] = {512, 520, 4048, 4096, 4160};
  const bool short_field = side.kind == Kind::kCrc && side.crc.type != MLX5DV_SIG_CRC_TYPE_CRC64_XP10;
  return kBlockBytes[side.block_size] + (short_field ? 4 : 8);
}

/// As the manual page of mlx5dv_mkey_check tells it. Of a guard the device calls what it made the expected
/// value and what it found the actual one; there it is the other way round. And the block is named by its
/// beginning.
void translate(const SignatureErrorCqe& error, const SignatureSettings& side, mlx5dv_mkey_err& info) {
  const uint16_t syndrome = error.syndrome;
  const uint64_t made = value_of(syndrome, side, error.expected_high, error.expected_low);
  const uint64_t found = value_of(syndrome, side, error.actual_high, error.actual_low);
  mlx5dv_sig_err& told = info.err.sig;
  const uint64_t end = uint64_t{error.offset} + 1, stride = block_stride(side);
  told.offset = end < stride ? 0 : end - stride;
  told.actual_value = found;
  told.expected_value = made;
  if ((syndrome & connectx::kBadRefTag) != 0) {
    info.err_type = MLX5DV_MKEY_SIG_BLOCK_BAD_REFTAG;
  } else if ((syndrome & connectx::kBadAppTag) != 0) {
    info.err_type = MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG;
  } else {
    info.err_type = MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD;
    told.actual_value = made;
    told.expected_value = found;
  }
}

}  // namespace

int make_protection(MemoryKey& key, uint32_t create_flags, uint32_t pd) {
  if ((create_flags & MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO) != 0) {
    key.encryption.reset(new (std::nothrow) KeyEncryption);
    if (key.encryption == nullptr) return ENOMEM;
  }
  return (create_flags & MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE) != 0 ? make_signatures(key, pd) : 0;
}

void unmake_protection(MemoryKey& key) {
  if (!key.signatures) return;
  destroy_psv(*key.context, key.signatures->memory_psv);
  destroy_psv(*key.context, key.signatures->wire_psv);
}

void watch_signatures(MemoryKey& key, bool on) {
  if (!key.signatures) return;
  ContextState& state = ContextState::of(*key.context);
  const std::lock_guard hold(state.signature_lock);
  if (on)
    state.signature_keys[key.index] = &key;
  else
    state.signature_keys.erase(key.index);
}

void note_signature_error(CompletionQueue& cq, const connectx::Cqe& cqe) {
  const auto& error = reinterpret_cast<const SignatureErrorCqe&>(cqe);
  ContextState& state = ContextState::of(*cq.context);
  const std::lock_guard hold(state.signature_lock);
  const auto found = state.signature_keys.find(error.key >> 8);
  if (found == state.signature_keys.end()) return;
  KeySignatures& signatures = *found->second->signatures;
  signatures.error = error;
  signatures.error_count++;
  signatures.count_changed = true;
}

}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" int _mlx5dv_mkey_check(mlx5dv_mkey* public_key, mlx5dv_mkey_err* info, size_t /*info_size*/) {
  MemoryKey& key = *MemoryKey::of(public_key);
  if (!key.signatures) return EINVAL;
  const std::lock_guard hold(ContextState::of(*key.context).signature_lock);
  info->err_type = MLX5DV_MKEY_NO_ERR;
  if (!key.signatures->error) return 0;
  const SignatureErrorCqe error = *key.signatures->error;
  const SignatureSettings& side =
      error.domain == connectx::kWireDomain ? key.signatures->wire : key.signatures->memory;
  if (error.kind != connectx::kBlockSignature || side.kind == Kind::kNone) return EINVAL;
  translate(error, side, *info);
  key.signatures->error.reset();
  return 0;
}
