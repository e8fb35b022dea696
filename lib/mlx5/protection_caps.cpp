// SPDX-License-Identifier: MIT
// Signature and crypto offloads as the device reports them.
#include "abi/prm/capabilities.h"
#include "device/connectx/prm/capabilities.h"
#include "lib/mlx5/protection.h"
#include "lib/mlx5/typed_command.h"

namespace verbatim::mlx5 {
namespace {

using prm::CmdHcaCap;
using Query = devx::TypedCommand<prm::QueryHcaCap>;

/// Asks for a group of capabilities; they stay zeros if the device does not answer.
prm::View<prm::HcaCapUnion> ask(Query& query, verbs::Context& context, prm::CapabilityGroup group) {
  constexpr uint32_t kCurrent = 1;
  query.in().set(prm::QueryHcaCapIn::op_mod, static_cast<uint32_t>(group) << 1 | kCurrent);
  (void)query.send(context);
  return query.out()[prm::QueryHcaCapOut::capability];
}

}  // namespace

mlx5dv_sig_caps signature_caps(verbs::Context& context) {
  Query query;
  const auto cap = ask(query, context, prm::CapabilityGroup::kGeneral)[prm::HcaCapUnion::cmd_hca_cap];
  mlx5dv_sig_caps caps{};
  if (!cap[CmdHcaCap::sho] || !cap[CmdHcaCap::sigerr_domain_and_sig_type]) return caps;
  caps.block_prot = MLX5DV_SIG_PROT_CAP_T10DIF | MLX5DV_SIG_PROT_CAP_CRC;
  caps.t10dif_bg = MLX5DV_SIG_T10DIF_BG_CAP_CRC | MLX5DV_SIG_T10DIF_BG_CAP_CSUM;
  caps.crc_type = MLX5DV_SIG_CRC_TYPE_CAP_CRC32;
  if (cap[CmdHcaCap::sig_crc32c]) caps.crc_type |= MLX5DV_SIG_CRC_TYPE_CAP_CRC32C;
  if (cap[CmdHcaCap::sig_crc64_xp10]) caps.crc_type |= MLX5DV_SIG_CRC_TYPE_CAP_CRC64_XP10;
  caps.block_size = MLX5DV_BLOCK_SIZE_CAP_512 | MLX5DV_BLOCK_SIZE_CAP_520 | MLX5DV_BLOCK_SIZE_CAP_4096 |
                    MLX5DV_BLOCK_SIZE_CAP_4160;
  if (cap[CmdHcaCap::sig_block_4048]) caps.block_size |= MLX5DV_BLOCK_SIZE_CAP_4048;
  return caps;
}

mlx5dv_crypto_caps crypto_caps(verbs::Context& context) {
  mlx5dv_crypto_caps caps{};
  Query general, crypto;
  const auto cap = ask(general, context, prm::CapabilityGroup::kGeneral)[prm::HcaCapUnion::cmd_hca_cap];
  if (!cap[CmdHcaCap::crypto]) return caps;
  caps.flags = MLX5DV_CRYPTO_CAPS_CRYPTO;
  constexpr uint8_t kSingle = MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_SINGLE_BLOCK;
  if (cap[CmdHcaCap::aes_xts_single_block_le_tweak]) caps.crypto_engines |= kSingle;
  if (cap[CmdHcaCap::aes_xts_multi_block_be_tweak])
    caps.crypto_engines |= kSingle | MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_MULTI_BLOCK;
  const auto engine = ask(crypto, context, prm::CapabilityGroup::kCrypto)[prm::HcaCapUnion::crypto_caps];
  caps.failed_selftests = static_cast<uint16_t>(engine[prm::CryptoCaps::failed_selftests]);
  caps.wrapped_import_method = static_cast<uint8_t>(engine[prm::CryptoCaps::wrapped_import_method]);
  caps.log_max_num_deks = static_cast<uint8_t>(engine[prm::CryptoCaps::log_max_num_deks]);
  if (engine[prm::CryptoCaps::wrapped_crypto_operational])
    caps.flags |= MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL;
  if (engine[prm::CryptoCaps::wrapped_crypto_going_to_commissioning])
    caps.flags |= MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_GOING_TO_COMMISSIONING;
  return caps;
}

}  // namespace verbatim::mlx5
