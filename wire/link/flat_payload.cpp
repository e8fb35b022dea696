// SPDX-License-Identifier: MIT
#include "wire/link/flat_payload.h"

#include "base/fault_copy.h"

namespace verbatim::wire {

CopyResult FlatPayload::copy_to(size_t offset, const Piece* pieces, uint32_t count) {
  size_t wanted = 0;
  for (uint32_t i = 0; i < count; i++) wanted += pieces[i].length;
  if (offset > length_ || wanted > length_ - offset) return CopyResult::kSourceFault;
  const std::byte* from = data_ + offset;
  for (uint32_t i = 0; i < count; i++) {
    if (!fault_copy(pieces[i].base, from, pieces[i].length)) return CopyResult::kDestinationFault;
    from += pieces[i].length;
  }
  return CopyResult::kDone;
}

}  // namespace verbatim::wire
