// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbatim::engine {

/// What an indirect memory key does to bytes on their way between its memory and the wire: signatures that
/// are made, checked and stripped, encryption.
///
/// A key with a transform has two domains. In the memory domain it is the bytes of its layout,
/// `memory_length` of them. In the wire domain it may be longer or shorter; addresses and lengths of work
/// requests that use the key count in that one, from the key's start address on. The engine moves such bytes
/// through a buffer, in blocks of its own choice.
///
/// Calls of one transfer come in order and without gaps. They are cut anywhere, also inside a signature; what
/// was lost may come again from an earlier offset with other cuts, and another transfer may begin at any
/// time. Called by several threads at once: implementations lock. Called inside an AccessScope with the locks
/// of a queue pair held: they must not wait.
///
/// A refusal is a reason in one clause; nullptr: done. A signature that does not verify is no refusal: it is
/// recorded and the transfer goes on.
class DataTransform {
 public:
  /// The memory domain of the key at hand: bytes [0, length()). Refuses what lies outside or is not there.
  class Memory {
   public:
    virtual ~Memory() = default;
    virtual uint64_t length() const = 0;
    virtual const char* read(uint64_t offset, void* to, size_t length) = 0;
    virtual const char* write(uint64_t offset, const void* from, size_t length) = 0;
  };

  virtual ~DataTransform() = default;

  /// Length in the wire domain of a key that has so many bytes of memory.
  virtual uint64_t wire_length(uint64_t memory_length) const = 0;

  /// Produces the wire bytes [offset, offset + length), which lie inside the wire domain.
  virtual const char* to_wire(Memory& memory, uint64_t offset, void* to, size_t length) = 0;

  /// Takes the wire bytes [offset, offset + length), which lie inside the wire domain. `last`: the transfer
  /// ends with them.
  virtual const char* to_memory(Memory& memory, uint64_t offset, const void* from, size_t length,
                                bool last) = 0;

  /// Grows with every error that is recorded: a queue pair that is to stop at the first compares.
  virtual uint32_t errors() const { return 0; }
};

}  // namespace verbatim::engine
