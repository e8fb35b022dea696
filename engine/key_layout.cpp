// SPDX-License-Identifier: MIT
#include "engine/key_layout.h"

#include <algorithm>

namespace verbatim::engine {

KeyLayout::KeyLayout(const KeyShape& shape, std::vector<Entry> entries, uint64_t rounds,
                     std::shared_ptr<DataTransform> transform)
    : shape_(shape), entries_(std::move(entries)), rounds_(rounds), transform_(std::move(transform)) {
  ends_.reserve(entries_.size());
  for (const Entry& entry : entries_) ends_.push_back(round_bytes_ += entry.length);
  if (round_bytes_ == 0) rounds_ = 0;
}

bool KeyLayout::find(uint64_t offset, Part& part) const {
  if (round_bytes_ == 0) return false;
  const uint64_t round = rounds_ == 1 ? 0 : offset / round_bytes_;
  offset -= round * round_bytes_;
  if (round >= rounds_ || offset >= round_bytes_) return false;
  const size_t index =
      static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), offset) - ends_.begin());
  const Entry& entry = entries_[index];
  const uint64_t into = offset - (ends_[index] - entry.length);
  part = {entry.key, entry.address + round * entry.stride + into, entry.length - into};
  return true;
}

}  // namespace verbatim::engine
