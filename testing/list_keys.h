// SPDX-License-Identifier: MIT
#pragma once

// Indirect keys over a piece of memory, and what they should hold, reckoned byte by byte.

#include <memory>
#include <vector>

#include "testing/engine_world.h"

namespace verbatim::testing {

/// A range of a piece of memory, `stride` further on in each round.
struct Column {
  size_t offset;
  uint64_t length;
  uint64_t stride = 0;
};

struct Layout {
  std::vector<Column> columns;
  uint64_t rounds = 1;

  uint64_t round_bytes() const {
    uint64_t sum = 0;
    for (const Column& column : columns) sum += column.length;
    return sum;
  }
  uint64_t length() const { return round_bytes() * rounds; }
  std::unique_ptr<const engine::KeyLayout> over(const TestMemory& memory, uint64_t base,
                                                std::shared_ptr<engine::DataTransform> transform = {}) const {
    std::vector<engine::KeyLayout::Entry> entries;
    for (const Column& column : columns)
      entries.push_back({memory.key(), base + column.offset, column.length, column.stride});
    return std::make_unique<const engine::KeyLayout>(engine::KeyShape{64, 0}, std::move(entries), rounds,
                                                     std::move(transform));
  }
};

/// An indirect key with that layout of the memory.
class ListKey {
 public:
  static constexpr uint32_t kEverything =
      engine::kLocalWrite | engine::kRemoteWrite | engine::kRemoteRead | engine::kRemoteAtomic;

  ListKey(Node& node, TestMemory& memory, Layout layout, uint32_t access = kEverything,
          std::shared_ptr<engine::DataTransform> transform = {})
      : node_(node), memory_(memory), layout_(std::move(layout)) {
    key_ = *node.engine().keys().create_indirect(
        {1, access, 0, layout_.length(), 0}, layout_.over(memory, memory.address(), std::move(transform)));
  }
  ~ListKey() { node_.engine().keys().destroy(key_); }
  ListKey(const ListKey&) = delete;

  uint32_t key() const { return key_; }
  uint64_t length() const { return layout_.length(); }
  engine::Sge sge(uint64_t offset, uint32_t length) const { return {offset, length, key_}; }
  /// Byte `index` of what the key stands for.
  char& at(uint64_t index) {
    const uint64_t round = index / layout_.round_bytes();
    index %= layout_.round_bytes();
    size_t column = 0;
    while (index >= layout_.columns[column].length) index -= layout_.columns[column++].length;
    return memory_.data()[layout_.columns[column].offset + round * layout_.columns[column].stride + index];
  }
  void fill(uint64_t bytes, uint8_t seed) {
    for (uint64_t i = 0; i < bytes; i++) at(i) = pattern(i, seed);
  }
  /// The first byte that is not as `fill` makes it, -1: all are.
  int64_t wrong(uint64_t bytes, uint8_t seed) {
    for (uint64_t i = 0; i < bytes; i++)
      if (at(i) != pattern(i, seed)) return static_cast<int64_t>(i);
    return -1;
  }
  static char pattern(uint64_t index, uint8_t seed) {
    return static_cast<char>(index * 7 + index / 251 + seed);
  }

 private:
  Node& node_;
  TestMemory& memory_;
  Layout layout_;
  uint32_t key_ = 0;
};

}  // namespace verbatim::testing
