// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/protection/signature.h"

namespace verbatim::engine {

/// Blocks with the fields of one side become blocks with those of the other: fields are checked where data
/// comes from, and dropped, copied or made anew where it goes.
///
/// A field is there when its block is whole: data that ends inside a block has no field for that block.
class BlockSignatures {
 public:
  BlockSignatures() = default;  ///< no fields on either side
  /// `check_mask`: bytes of incoming fields that must be right. `copy_mask`: bytes that are passed on as they
  /// came; only between domains of the same structure.
  BlockSignatures(const SignatureDomain& memory, const SignatureDomain& wire, uint8_t check_mask,
                  uint8_t copy_mask);

  /// Bytes of one side that stand for `bytes` of the other.
  uint64_t wire_bytes(uint64_t memory_bytes) const { return widen(wire_, narrow(memory_, memory_bytes)); }
  uint64_t memory_bytes(uint64_t wire_bytes) const { return widen(memory_, narrow(wire_, wire_bytes)); }
  /// The shortest run that begins and ends with whole blocks of both sides, on each of them.
  uint64_t wire_granule() const { return widen(wire_, granule_); }
  uint64_t memory_granule() const { return widen(memory_, granule_); }

  /// Which blocks are checked: those whose field ends behind the first `after` bytes and within the first
  /// `until`.
  struct Window {
    uint64_t after, until;
  };
  /// Makes what the bytes stand for on the other side of them, which come from `from` and begin at granule
  /// `index`. The first field that is wrong is reported unless there is a fault already.
  std::vector<uint8_t> convert(SignatureSide from, uint64_t index, std::span<const uint8_t> in,
                               Window checked, std::optional<SignatureFault>& fault) const;

 private:
  /// Data without its fields, and the fields.
  struct Bare {
    std::vector<uint8_t> data;
    std::vector<uint64_t> fields;
  };

  static uint64_t narrow(const SignatureDomain& domain, uint64_t bytes);
  static uint64_t widen(const SignatureDomain& domain, uint64_t data_bytes);
  Bare take(SignatureSide from, uint64_t index, std::span<const uint8_t> in, Window checked,
            std::optional<SignatureFault>& fault) const;
  std::vector<uint8_t> give(SignatureSide to, uint64_t index, const Bare& bare) const;
  void check(SignatureSide from, uint64_t block, uint64_t found, std::span<const uint8_t> data,
             std::optional<SignatureFault>& fault) const;
  const SignatureDomain& of(SignatureSide side) const {
    return side == SignatureSide::kWire ? wire_ : memory_;
  }
  uint64_t first_block(const SignatureDomain& domain, uint64_t index) const {
    return index * (granule_ / domain.block_bytes);
  }

  SignatureDomain memory_, wire_;
  uint64_t check_mask_ = 0, copy_mask_ = 0;
  uint64_t granule_ = 1;  ///< bytes of data
};

}  // namespace verbatim::engine
