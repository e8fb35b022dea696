// SPDX-License-Identifier: MIT
#pragma once

#include "engine/data_transform.h"
#include "engine/memory_keys.h"

namespace verbatim::engine {

/// What an imported memory region stands for: the memory behind a key of another process of this host,
/// reached through the kernel. It is there as long as that key and that process are.
class ForeignMemory final : public DataTransform {
 public:
  /// `original`: as the other process shows it. `process` outlives this.
  ForeignMemory(wire::Channel& process, const KeyView& original) : process_(process), original_(original) {}

  uint64_t wire_length(uint64_t memory_length) const override { return memory_length; }
  const char* to_wire(Memory& /*memory*/, uint64_t offset, void* to, size_t length) override {
    return move(offset, {to, length}, false);
  }
  const char* to_memory(Memory& /*memory*/, uint64_t offset, const void* from, size_t length,
                        bool /*last*/) override {
    return move(offset, {const_cast<void*>(from), length}, true);
  }

 private:
  const char* move(uint64_t offset, const wire::Piece& here, bool write);

  wire::Channel& process_;
  const KeyView original_;
};

/// The key of that index as the process at the other end of the channel shows it. False: it has none, or has
/// gone.
bool read_foreign_key(wire::Channel& process, uint32_t index, KeyView& view);

}  // namespace verbatim::engine
