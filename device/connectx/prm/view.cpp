// SPDX-License-Identifier: MIT
#include "device/connectx/prm/view.h"

#include <algorithm>

namespace verbatim::prm {

namespace {

/// Bits of one byte that a field covers: how many, and how far their lowest is from the byte's lowest.
struct Piece {
  unsigned bits, shift;
  uint64_t mask() const { return (uint64_t{1} << bits) - 1; }
};

Piece piece_at(uint64_t offset, unsigned left) {
  const auto skipped = static_cast<unsigned>(offset % 8);
  const unsigned bits = std::min(8 - skipped, left);
  return {bits, 8 - skipped - bits};
}

}  // namespace

uint64_t read_bits(std::span<const uint8_t> box, uint64_t offset, unsigned width) {
  if (!holds(box, offset, width)) return 0;
  uint64_t value = 0;
  while (width > 0) {
    const Piece piece = piece_at(offset, width);
    value = value << piece.bits | (box[offset / 8] >> piece.shift & piece.mask());
    offset += piece.bits;
    width -= piece.bits;
  }
  return value;
}

void write_bits(std::span<uint8_t> box, uint64_t offset, unsigned width, uint64_t value) {
  if (!holds(box, offset, width)) return;
  while (width > 0) {
    const Piece piece = piece_at(offset, width);
    const uint64_t part = value >> (width - piece.bits) & piece.mask();
    uint8_t& byte = box[offset / 8];
    byte = static_cast<uint8_t>((byte & ~(piece.mask() << piece.shift)) | part << piece.shift);
    offset += piece.bits;
    width -= piece.bits;
  }
}

}  // namespace verbatim::prm
