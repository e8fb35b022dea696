// SPDX-License-Identifier: MIT
#pragma once

// Integrity fields worked out bit by bit, so that tests do not ask the code under test what is right.

#include <infiniband/mlx5dv.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace verbatim::conformance {

using Bytes = std::vector<uint8_t>;

/// The fields of one side: a kind, and what direct verbs are told of it.
struct Fields {
  enum class Kind { kNone, kT10Crc, kT10Checksum, kCrc32, kCrc32c, kCrc64 };

  Kind kind = Kind::kNone;
  mlx5dv_block_size size = MLX5DV_BLOCK_SIZE_512;
  uint16_t app_tag = 0x5678;
  uint32_t ref_tag = 0xf0debc9a;
  uint16_t flags = MLX5DV_SIG_T10DIF_FLAG_REF_REMAP;

  std::string name() const {
    return "kind " + std::to_string(static_cast<int>(kind)) + ", blocks of " + std::to_string(block_bytes());
  }
  bool is_t10() const { return kind == Kind::kT10Crc || kind == Kind::kT10Checksum; }
  size_t block_bytes() const { return std::vector<size_t>{512, 520, 4048, 4096, 4160}[size]; }
  size_t field_bytes() const {
    if (kind == Kind::kNone) return 0;
    return kind == Kind::kCrc32 || kind == Kind::kCrc32c ? 4 : 8;
  }
  size_t bytes_for(size_t data) const { return data + data / block_bytes() * field_bytes(); }
  uint8_t mask() const {
    if (is_t10() || kind == Kind::kCrc64) return 0xff;
    return MLX5DV_SIG_MASK_CRC32;
  }
  /// The data with a field behind each whole block.
  Bytes put_into(const Bytes& data) const;
  /// The guard, or the whole field where there is nothing else.
  uint64_t guard(std::span<const uint8_t> block) const;
};

/// What mlx5dv_wr_set_mkey_sig_block takes, kept together.
class Signature {
 public:
  Signature(const Fields& memory, const Fields& wire);
  Signature(const Signature&) = delete;
  mlx5dv_sig_block_attr attr{};

 private:
  struct Domain {
    mlx5dv_sig_t10dif dif{};
    mlx5dv_sig_crc crc{};
    mlx5dv_sig_block_domain told{};
  };
  static const mlx5dv_sig_block_domain* tell(const Fields& fields, Domain& domain);
  Domain memory_, wire_;
};

}  // namespace verbatim::conformance
