// SPDX-License-Identifier: MIT
// Sessions of compressed completions, which stay what they are for programs that read the ring themselves;
// for all others they are expanded where they lie, when their first entry is met.
#include <algorithm>
#include <cstring>

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {

using connectx::Cqe;
using connectx::kMinisPerEntry;
using connectx::MiniCqe;

void expand_completions(CompletionQueue& cq, uint32_t index) {
  const Cqe title = *cq.entry(index);
  const uint32_t count = std::min({uint32_t{title.byte_count}, connectx::kSessionMax, cq.entries()});
  MiniCqe minis[connectx::kSessionMax + kMinisPerEntry];
  for (uint32_t first = 0; first < count; first += kMinisPerEntry)
    std::memcpy(static_cast<void*>(&minis[first]), cq.entry(index + std::max(first, 1u)), sizeof(Cqe));
  for (uint32_t i = count; i-- > 0;) {
    Cqe expanded = title;
    expanded.byte_count = minis[i].byte_count;
    expanded.wqe_counter = static_cast<uint16_t>(title.wqe_counter + i);
    const auto owner = static_cast<uint8_t>(((index + i) & cq.entries()) != 0 ? 1 : 0);
    expanded.opcode_owner = static_cast<uint8_t>((title.opcode_owner & 0xf0) | owner);
    std::memcpy(static_cast<void*>(cq.entry(index + i)), &expanded, sizeof expanded);
  }
}

}  // namespace verbatim::mlx5
