// SPDX-License-Identifier: MIT
// Indirect memory keys: made and destroyed by command, given their meaning by work requests.
#include "lib/mlx5/memory_key.h"

#include <bit>
#include <new>

#include "abi/prm/memory.h"
#include "lib/mlx5/devx.h"
#include "lib/mlx5/direct.h"

namespace verbatim::mlx5 {
namespace {

constexpr uint32_t kFlags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG |
                            MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE |
                            MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE | MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO;
constexpr uint32_t kProtected =
    MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE | MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO;
constexpr uint32_t kRoomStep = 4;
constexpr uint32_t kBsfUnits = 4;      ///< of 16 bytes, for signatures and for encryption each
constexpr uint32_t kRoomMax = 0xfffc;  ///< that max_entries can tell

Outcome check(const mlx5dv_mkey_init_attr& wanted) {
  if ((wanted.create_flags & MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT) == 0 ||
      (wanted.create_flags & ~kFlags) != 0)
    return Error{EOPNOTSUPP,
                 "mlx5dv_create_mkey: keys are indirect, and have no other properties than those known"};
  if (wanted.max_entries > kRoomMax)
    return Error{EINVAL, "mlx5dv_create_mkey: a key has at most 65532 entries"};
  return Done{};
}

/// The key's index, in a free key without memory.
Expected<uint32_t> command_key(verbs::Context& context, const mlx5dv_mkey_init_attr& wanted, uint32_t pd,
                               uint32_t room) {
  using prm::CreateMkeyIn;
  using prm::Mkc;
  uint8_t in[CreateMkeyIn::kBits / 8] = {}, out[prm::CreateMkeyOut::kBits / 8] = {};
  const prm::Writer<CreateMkeyIn> box(in);
  box.set(CreateMkeyIn::opcode, prm::CreateMkey::kOpcode);
  const auto key = box[CreateMkeyIn::memory_key_mkey_entry];
  key.set(Mkc::access_mode_1_0, prm::MkeyAccessMode::kKlms);
  key.set(Mkc::free, true);
  key.set(Mkc::umr_en, true);
  key.set(Mkc::lr, true);
  key.set(Mkc::pd, pd);
  key.set(Mkc::qpn, connectx::kUmrAnyQp);
  key.set(Mkc::translations_octword_size, room);
  key.set(Mkc::bsf_en, (wanted.create_flags & kProtected) != 0);
  key.set(Mkc::crypto_en, (wanted.create_flags & MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO) != 0);
  key.set(Mkc::bsf_octword_size,
          kBsfUnits * static_cast<uint32_t>(std::popcount(wanted.create_flags & kProtected)));
  key.set(Mkc::en_rinval, (wanted.create_flags & MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE) != 0);
  if (const int error = devx::send(context, in, out)) return Error{error, "the device makes no such key"};
  return prm::View<prm::CreateMkeyOut>(out)[prm::CreateMkeyOut::mkey_index];
}

int destroy_key(verbs::Context& context, uint32_t index) {
  using prm::DestroyMkeyIn;
  uint8_t in[DestroyMkeyIn::kBits / 8] = {}, out[prm::DestroyMkeyOut::kBits / 8] = {};
  const prm::Writer<DestroyMkeyIn> box(in);
  box.set(DestroyMkeyIn::opcode, prm::DestroyMkey::kOpcode);
  box.set(DestroyMkeyIn::mkey_index, index);
  return devx::send(context, in, out);
}

}  // namespace
}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

mlx5dv_mkey* mlx5dv_create_mkey(mlx5dv_mkey_init_attr* wanted) {
  // Released programs call this with contexts that were not opened for commands of their own.
  verbs::Context* context = working(wanted->pd->context);
  if (context == nullptr) return nullptr;
  if (const Outcome fits = check(*wanted); !fits) return verbs::refuse_pointer(*context, fits.error());
  auto key = std::unique_ptr<MemoryKey>(new (std::nothrow) MemoryKey);
  if (key == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  verbs::ProtectionDomain& domain = *verbs::ProtectionDomain::of(wanted->pd);
  key->context = context;
  key->room = (wanted->max_entries + kRoomStep - 1) / kRoomStep * kRoomStep;
  if (const int error = make_protection(*key, wanted->create_flags, domain.device->number)) {
    unmake_protection(*key);
    errno = error;
    return nullptr;
  }
  const Expected<uint32_t> index = command_key(*context, *wanted, domain.device->number, key->room);
  if (!index) {
    unmake_protection(*key);
    errno = index.error().code;
    return nullptr;
  }
  key->index = *index;
  key->shown.lkey = key->shown.rkey = *index << 8;
  key->domain_use = verbs::DomainUse(domain);
  watch_signatures(*key, true);
  wanted->max_entries = static_cast<uint16_t>(key->room);
  return &key.release()->shown;
}

int mlx5dv_destroy_mkey(mlx5dv_mkey* public_key) {
  MemoryKey* key = MemoryKey::of(public_key);
  if (!key->context->abandoned) {
    watch_signatures(*key, false);  // before its index is another's
    if (const int error = destroy_key(*key->context, key->index)) {
      watch_signatures(*key, true);
      return error;
    }
    unmake_protection(*key);
  }
  delete key;
  return 0;
}

}  // extern "C"
