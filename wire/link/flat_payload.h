// SPDX-License-Identifier: MIT
#pragma once

#include "wire/link/segment.h"

namespace verbatim::wire {

/// Bytes that lie in one piece of this process's (or shared) memory.
class FlatPayload final : public Payload {
 public:
  FlatPayload(const std::byte* data, size_t length) : data_(data), length_(length) {}
  CopyResult copy_to(size_t offset, const Piece* pieces, uint32_t count) override;

 private:
  const std::byte* data_;
  size_t length_;
};

}  // namespace verbatim::wire
