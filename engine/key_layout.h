// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/data_transform.h"

namespace verbatim::engine {

/// What an indirect key was made for, which no work request changes.
struct KeyShape {
  uint32_t room = 0;          ///< entries that it has room for
  uint64_t entry_length = 0;  ///< of each entry; 0: each has its own
  bool takes_transform = false;
  std::shared_ptr<DataTransform> transform_at_first = nullptr;  ///< and whenever it is given none
};

/// What an indirect memory key stands for: ranges of other keys, one behind the other. Never changed once a
/// key has it.
class KeyLayout {
 public:
  /// A range of another key. In a layout of several rounds it moves on by `stride` from round to round.
  struct Entry {
    uint32_t key = 0;
    uint64_t address = 0;
    uint64_t length = 0;
    uint64_t stride = 0;
  };
  /// A part of one entry's range.
  struct Part {
    uint32_t key;
    uint64_t address;
    uint64_t length;
  };

  /// `rounds` times through the list. Entries without length count for nothing.
  KeyLayout(const KeyShape& shape, std::vector<Entry> entries, uint64_t rounds = 1,
            std::shared_ptr<DataTransform> transform = {});

  /// The part that begins `offset` bytes into the layout, as far as its entry goes. False: there is none.
  bool find(uint64_t offset, Part& part) const;

  const KeyShape& shape() const { return shape_; }
  uint64_t length() const { return round_bytes_ * rounds_; }
  const std::vector<Entry>& entries() const { return entries_; }
  uint64_t rounds() const { return rounds_; }
  const std::shared_ptr<DataTransform>& transform() const { return transform_; }

 private:
  KeyShape shape_;
  std::vector<Entry> entries_;
  std::vector<uint64_t> ends_;  ///< of each entry, counted from the beginning of a round
  uint64_t rounds_;
  uint64_t round_bytes_ = 0;
  std::shared_ptr<DataTransform> transform_;
};

}  // namespace verbatim::engine
