// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/key_layout.h"

namespace verbatim::connectx {

/// The list of an indirect key as it lies in a queue entry or mailbox: KLM or KSM entries, or one interleaved
/// block.
struct KeyList {
  std::vector<engine::KeyLayout::Entry> entries;
  uint64_t rounds = 1;
};

/// Decodes a list. nullptr, or what is wrong with it.
const char* decode_list(std::span<const std::byte> octowords, const engine::KeyShape& shape, KeyList& list);

/// Puts `part` in place of the entries of `list` from `first` on. nullptr, or why that does not go.
const char* replace_entries(KeyList& list, const KeyList& part, uint64_t first,
                            const engine::KeyShape& shape);

}  // namespace verbatim::connectx
