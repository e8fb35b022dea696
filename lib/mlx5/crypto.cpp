// SPDX-License-Identifier: MIT
// mlx5dv: data encryption keys, and logins at the crypto engine.
#include <cstring>
#include <new>

#include "abi/prm/crypto.h"
#include "lib/mlx5/direct.h"
#include "lib/mlx5/protection.h"
#include "lib/mlx5/typed_command.h"

namespace verbatim::mlx5 {
namespace {

using prm::CryptoLoginObj;
using prm::EncryptionKeyObj;
using prm::GeneralObjInCmdHdr;
using prm::GeneralObjOutCmdHdr;

constexpr uint32_t kNumberMax = 0xffffff;
constexpr uint32_t kXtsEngines =
    MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_SINGLE_BLOCK | MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_MULTI_BLOCK;

/// A query or destruction of a general object.
template <class Spec>
struct About : devx::TypedCommand<Spec> {
  explicit About(uint32_t number) { this->in().set(GeneralObjInCmdHdr::obj_id, number); }
};

int log_in(verbs::Context& context, const mlx5dv_crypto_login_attr_ex& attributes, uint32_t& number) {
  if (!(crypto_caps(context).flags & MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL))
    return verbs::refuse(
        context, EOPNOTSUPP,
        "crypto login: the device takes keys in plain text; VERBATIM_CRYPTO=wrapped changes that");
  devx::TypedCommand<prm::CreateCryptoLogin> command;
  const auto object = command.in()[prm::CreateCryptoLoginObjIn::login_obj];
  const size_t room = object.size(CryptoLoginObj::credential) * sizeof(uint32_t);
  if (attributes.comp_mask != 0 || attributes.credential == nullptr || attributes.credential_len > room ||
      attributes.credential_id > kNumberMax || attributes.import_kek_id > kNumberMax)
    return verbs::refuse(context, EINVAL, "crypto login: an attribute is out of range");
  object.set(CryptoLoginObj::credential_pointer, attributes.credential_id);
  object.set(CryptoLoginObj::session_import_kek_ptr, attributes.import_kek_id);
  const auto* bytes = static_cast<const uint8_t*>(attributes.credential);
  for (size_t i = 0; i < attributes.credential_len; i++) {
    const uint32_t word = object.at(CryptoLoginObj::credential, i / 4);
    object.set(CryptoLoginObj::credential, i / 4, word | uint32_t{bytes[i]} << (24 - 8 * (i % 4)));
  }
  const int error = command.send(context);
  number = command.out()[GeneralObjOutCmdHdr::obj_id];
  return error == EBUSY ? EEXIST : error;
}

int query_login(verbs::Context& context, uint32_t number, mlx5dv_crypto_login_state& state) {
  About<prm::QueryCryptoLogin> command(number);
  if (const int error = command.send(context)) return error;
  const auto object = command.out()[prm::QueryCryptoLoginObjOut::obj];
  state = object.as<prm::CryptoLoginState>(CryptoLoginObj::state) == prm::CryptoLoginState::kValid
              ? MLX5DV_CRYPTO_LOGIN_STATE_VALID
              : MLX5DV_CRYPTO_LOGIN_STATE_INVALID;
  return 0;
}

/// Whether the key may come in the way it does.
Outcome check_key(verbs::Context& context, const mlx5dv_dek_init_attr& attributes) {
  const mlx5dv_crypto_caps caps = crypto_caps(context);
  if (!(caps.crypto_engines & kXtsEngines)) return Error{EOPNOTSUPP, "DEK: the device does not encrypt"};
  if (attributes.key_purpose != MLX5DV_CRYPTO_KEY_PURPOSE_AES_XTS)
    return Error{EINVAL, "DEK: its purpose can only be AES-XTS"};
  if (attributes.key_size != MLX5DV_CRYPTO_KEY_SIZE_128 && attributes.key_size != MLX5DV_CRYPTO_KEY_SIZE_256)
    return Error{EINVAL, "DEK: a key has 128 or 256 bits"};
  if (attributes.pd == nullptr) return Error{EINVAL, "DEK: it needs a protection domain"};
  if (attributes.comp_mask & ~uint64_t{MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN})
    return Error{EINVAL, "DEK: unknown bits in comp_mask"};
  const bool named = (attributes.comp_mask & MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN) != 0;
  const bool wrapped = !named || attributes.crypto_login != nullptr;
  const bool wanted = (caps.wrapped_import_method & MLX5DV_CRYPTO_WRAPPED_IMPORT_METHOD_CAP_AES_XTS) != 0;
  if (wrapped && !wanted) return Error{EINVAL, "DEK: the device takes keys in plain text"};
  if (!wrapped && wanted) return Error{EINVAL, "DEK: the device takes wrapped keys only"};
  if (!named && ContextState::of(context).crypto_session == 0)
    return Error{EINVAL, "DEK: the context has no crypto login"};
  return Done{};
}

int create_dek(verbs::Context& context, const mlx5dv_dek_init_attr& attributes, uint32_t& number) {
  devx::TypedCommand<prm::CreateDek> command;
  const auto object = command.in()[prm::CreateEncryptionKeyObjIn::key_obj];
  object.set(EncryptionKeyObj::key_size,
             attributes.key_size == MLX5DV_CRYPTO_KEY_SIZE_256 ? prm::DekSize::k256 : prm::DekSize::k128);
  object.set(EncryptionKeyObj::key_purpose, prm::DekPurpose::kAesXts);
  object.set(EncryptionKeyObj::has_keytag, attributes.has_keytag);
  object.set(EncryptionKeyObj::pd, verbs::ProtectionDomain::of(attributes.pd)->device->number);
  connectx::Be64 opaque;
  static_assert(sizeof opaque == sizeof attributes.opaque);
  std::memcpy(&opaque, attributes.opaque, sizeof opaque);
  object.set(EncryptionKeyObj::opaque, uint64_t{opaque});
  for (size_t i = 0; i < sizeof attributes.key; i++)
    object.set(EncryptionKeyObj::key, i, static_cast<uint8_t>(attributes.key[i]));
  const int error = command.send(context);
  number = command.out()[GeneralObjOutCmdHdr::obj_id];
  return error;
}

/// A program's handle for what has just been made; without memory for it, `Destroy` takes that back.
template <class Handle, class Destroy>
Handle* handle_for(verbs::Context& context, uint32_t number) {
  auto* handle = new (std::nothrow) Handle{&context, number};
  if (handle != nullptr) return handle;
  (void)About<Destroy>(number).send(context);
  errno = ENOMEM;
  return nullptr;
}

template <class Destroy, class Handle>
int destroy(Handle* handle) {
  if (!handle->context->abandoned)
    if (const int error = About<Destroy>(handle->number).send(*handle->context)) return error;
  delete handle;
  return 0;
}

}  // namespace
}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

int mlx5dv_crypto_login(ibv_context* public_context, mlx5dv_crypto_login_attr* attributes) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return errno;
  ContextState& state = ContextState::of(*context);
  const std::lock_guard hold(state.crypto_lock);
  if (state.crypto_session != 0)
    return verbs::refuse(*context, EEXIST, "crypto login: the context has one already");
  const mlx5dv_crypto_login_attr_ex all{attributes->credential_id, attributes->import_kek_id,
                                        attributes->credential, sizeof attributes->credential,
                                        attributes->comp_mask};
  uint32_t number = 0;
  if (const int error = log_in(*context, all, number)) return error;
  state.crypto_session = number;
  return 0;
}

int mlx5dv_crypto_login_query_state(ibv_context* public_context, mlx5dv_crypto_login_state* login_state) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return errno;
  ContextState& state = ContextState::of(*context);
  const std::lock_guard hold(state.crypto_lock);
  if (state.crypto_session != 0) return query_login(*context, state.crypto_session, *login_state);
  *login_state = MLX5DV_CRYPTO_LOGIN_STATE_NO_LOGIN;
  return 0;
}

int mlx5dv_crypto_logout(ibv_context* public_context) {
  verbs::Context* context = own(public_context);
  if (context == nullptr) return EOPNOTSUPP;
  ContextState& state = ContextState::of(*context);
  const std::lock_guard hold(state.crypto_lock);
  if (state.crypto_session == 0) return ENOENT;
  if (const int error = About<prm::DestroyCryptoLogin>(state.crypto_session).send(*context)) return error;
  state.crypto_session = 0;
  return 0;
}

mlx5dv_crypto_login_obj* mlx5dv_crypto_login_create(ibv_context* public_context,
                                                    mlx5dv_crypto_login_attr_ex* attributes) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return nullptr;
  uint32_t number = 0;
  errno = log_in(*context, *attributes, number);
  if (errno != 0) return nullptr;
  return handle_for<mlx5dv_crypto_login_obj, prm::DestroyCryptoLogin>(*context, number);
}

int mlx5dv_crypto_login_query(mlx5dv_crypto_login_obj* login, mlx5dv_crypto_login_query_attr* attributes) {
  if (login->context->abandoned) return EOPNOTSUPP;
  if (attributes->comp_mask != 0) return EINVAL;
  return query_login(*login->context, login->number, attributes->state);
}

int mlx5dv_crypto_login_destroy(mlx5dv_crypto_login_obj* login) {
  return destroy<prm::DestroyCryptoLogin>(login);
}

mlx5dv_dek* mlx5dv_dek_create(ibv_context* public_context, mlx5dv_dek_init_attr* attributes) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return nullptr;
  if (Outcome sound = check_key(*context, *attributes); !sound)
    return verbs::refuse_pointer(*context, sound.error());
  uint32_t number = 0;
  errno = create_dek(*context, *attributes, number);
  return errno == 0 ? handle_for<mlx5dv_dek, prm::DestroyDek>(*context, number) : nullptr;
}

int mlx5dv_dek_query(mlx5dv_dek* dek, mlx5dv_dek_attr* attributes) {
  if (dek->context->abandoned) return EOPNOTSUPP;
  if (attributes->comp_mask != 0) return EINVAL;
  About<prm::QueryDek> command(dek->number);
  if (const int error = command.send(*dek->context)) return error;
  const auto object = command.out()[prm::QueryEncryptionKeyObjOut::obj];
  attributes->state = object.as<prm::DekState>(EncryptionKeyObj::state) == prm::DekState::kReady
                          ? MLX5DV_DEK_STATE_READY
                          : MLX5DV_DEK_STATE_ERROR;
  const connectx::Be64 opaque(object[EncryptionKeyObj::opaque]);
  std::memcpy(attributes->opaque, &opaque, sizeof attributes->opaque);
  return 0;
}

int mlx5dv_dek_destroy(mlx5dv_dek* dek) { return destroy<prm::DestroyDek>(dek); }

}  // extern "C"
