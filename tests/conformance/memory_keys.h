// SPDX-License-Identifier: MIT
#pragma once

// Indirect memory keys of a player, and what they should hold.

#include <infiniband/mlx5dv.h>

#include <vector>

#include "tests/conformance/players.h"

namespace verbatim::conformance {

inline constexpr uint64_t kKeyOperations = MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MR_LIST |
                                           MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_RAW_WQE |
                                           MLX5DV_QP_EX_WITH_MEMCPY;
inline Traits key_traits() {
  Traits traits;
  traits.operations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_LOCAL_INV;
  traits.direct_operations = kKeyOperations;
  traits.inline_bytes = 512;
  return traits;
}

/// Ranges of a player's buffer, through which a key goes `rounds` times.
struct Ranges {
  struct Range {
    uint32_t offset, bytes, skip;
  };
  std::vector<Range> list;
  uint32_t rounds = 0;  ///< 0: a plain list

  uint64_t round_bytes() const {
    uint64_t sum = 0;
    for (const Range& range : list) sum += range.bytes;
    return sum;
  }
  uint64_t length() const { return round_bytes() * (rounds == 0 ? 1 : rounds); }
  /// Where byte `index` lies in the buffer.
  size_t at(uint64_t index) const {
    const uint64_t round = index / round_bytes();
    index %= round_bytes();
    size_t i = 0;
    while (index >= list[i].bytes) index -= list[i++].bytes;
    return list[i].offset + round * (list[i].bytes + list[i].skip) + index;
  }
};

/// An indirect key of a player, destroyed with it.
class Key {
 public:
  explicit Key(Endpoint& self, uint16_t entries = 32, uint32_t flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT);
  ~Key() { EXPECT_EQ(mlx5dv_destroy_mkey(key), 0); }
  Key(const Key&) = delete;

  /// Lays it over ranges of the player's buffer; the completion of that, or the error of posting it.
  int give(const Ranges& ranges, uint32_t access = kAllRights, bool configure = false);
  ibv_wc_status lay(const Ranges& ranges, uint32_t access = kAllRights, bool configure = false);
  ibv_wc_status invalidate();
  ibv_sge sge(uint64_t offset, uint64_t bytes) const {
    return {offset, static_cast<uint32_t>(bytes), key->lkey};
  }
  void fill(uint64_t bytes, uint8_t seed);
  bool holds(uint64_t bytes, uint8_t seed) const;

  Endpoint& self;
  mlx5dv_mkey* key = nullptr;
  Ranges laid;
};

inline mlx5dv_qp_ex* direct_builder(const Endpoint& self) {
  return mlx5dv_qp_ex_from_ibv_qp_ex(self.builder());
}

/// Layouts of 3000 bytes or more: one range, some odd ones, columns.
std::vector<Ranges> layouts();

}  // namespace verbatim::conformance
