// SPDX-License-Identifier: MIT
#include "tests/conformance/protected_keys.h"

#include <random>

namespace verbatim::conformance {

ProtectedKey::ProtectedKey(Endpoint& player, uint32_t flags) : self(player) {
  mlx5dv_mkey_init_attr wanted{};
  wanted.pd = self.pd;
  wanted.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | flags;
  wanted.max_entries = 4;
  key = mlx5dv_create_mkey(&wanted);
  EXPECT_NE(key, nullptr);
}

int ProtectedKey::post(std::optional<Piece> piece, const mlx5dv_sig_block_attr* signature,
                       const mlx5dv_crypto_attr* encryption, uint32_t conf_flags) {
  ibv_qp_ex* qp = self.builder();
  mlx5dv_qp_ex* direct = direct_builder(self);
  ibv_wr_start(qp);
  qp->wr_id = 77;
  qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  mlx5dv_mkey_conf_attr wanted{};
  wanted.conf_flags = conf_flags;
  const int setters = (piece ? 2 : 0) + (signature != nullptr) + (encryption != nullptr);
  mlx5dv_wr_mkey_configure(direct, key, static_cast<uint8_t>(setters), &wanted);
  if (piece) {
    const ibv_sge sge = self.piece(piece->offset, piece->bytes);
    mlx5dv_wr_set_mkey_access_flags(direct, kAllRights & ~IBV_ACCESS_REMOTE_ATOMIC);
    mlx5dv_wr_set_mkey_layout_list(direct, 1, &sge);
  }
  if (signature != nullptr) mlx5dv_wr_set_mkey_sig_block(direct, signature);
  if (encryption != nullptr) mlx5dv_wr_set_mkey_crypto(direct, encryption);
  return ibv_wr_complete(qp);
}

ibv_wc_status ProtectedKey::give(std::optional<Piece> piece, const mlx5dv_sig_block_attr* signature,
                                 const mlx5dv_crypto_attr* encryption, uint32_t conf_flags) {
  EXPECT_EQ(post(piece, signature, encryption, conf_flags), 0);
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.wr_id, 77u);
  return wc.status;
}

mlx5dv_mkey_err ProtectedKey::check() const {
  mlx5dv_mkey_err error{};
  EXPECT_EQ(mlx5dv_mkey_check(key, &error), 0);
  return error;
}

Bytes random_bytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes made(count);
  for (uint8_t& each : made) each = static_cast<uint8_t>(random());
  return made;
}

ibv_send_wr through(const ibv_sge& sge, ibv_wr_opcode opcode, uint64_t address, uint32_t rkey) {
  static thread_local ibv_sge kept;
  kept = sge;
  ibv_send_wr wr{};
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &kept;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = address;
  wr.wr.rdma.rkey = rkey;
  return wr;
}

}  // namespace verbatim::conformance
