// SPDX-License-Identifier: MIT
#pragma once

// Memory keys of a player that have signatures or encryption.

#include <optional>

#include "tests/conformance/memory_keys.h"
#include "tests/conformance/signature_fields.h"

namespace verbatim::conformance {

/// A part of a player's buffer.
struct Piece {
  uint32_t offset, bytes;
};

/// Such a key over one piece of a player's buffer.
class ProtectedKey {
 public:
  explicit ProtectedKey(Endpoint& player, uint32_t flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE);
  ~ProtectedKey() { EXPECT_EQ(mlx5dv_destroy_mkey(key), 0); }
  ProtectedKey(const ProtectedKey&) = delete;

  /// Adds setters for the piece, the signature and the encryption, whichever are given, and posts the update.
  int post(std::optional<Piece> piece, const mlx5dv_sig_block_attr* signature,
           const mlx5dv_crypto_attr* encryption = nullptr, uint32_t conf_flags = 0);
  /// The same and its completion.
  ibv_wc_status give(std::optional<Piece> piece, const mlx5dv_sig_block_attr* signature,
                     const mlx5dv_crypto_attr* encryption = nullptr, uint32_t conf_flags = 0);
  mlx5dv_mkey_err check() const;
  /// The kind of error that is reported.
  mlx5dv_mkey_err_type error() const { return check().err_type; }
  /// Bytes of the wire's side.
  ibv_sge sge(uint64_t offset, uint64_t bytes) const {
    return {offset, static_cast<uint32_t>(bytes), key->lkey};
  }

  Endpoint& self;
  mlx5dv_mkey* key = nullptr;
};

inline void put(Endpoint& self, size_t offset, const Bytes& bytes) {
  std::copy(bytes.begin(), bytes.end(), self.buffer.begin() + static_cast<std::ptrdiff_t>(offset));
}
inline Bytes got(const Endpoint& self, size_t offset, size_t bytes) {
  const auto begin = self.buffer.begin() + static_cast<std::ptrdiff_t>(offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
}
Bytes random_bytes(size_t count, uint32_t seed);

/// A request over a piece of a key's wire domain, aimed at an address of the peer.
ibv_send_wr through(const ibv_sge& sge, ibv_wr_opcode opcode, uint64_t address = 0, uint32_t rkey = 0);

}  // namespace verbatim::conformance
