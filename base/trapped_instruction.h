// SPDX-License-Identifier: MIT
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

#include "base/memory_instruction.h"
#include "base/trapped_memory.h"

namespace verbatim {

/// The instruction at which a fault has stopped a thread, to be carried out by somebody else: what it asks of
/// the address that faulted, and how the thread goes on after it. For a handler of SIGSEGV; x86-64 only.
class TrappedInstruction {
 public:
  explicit TrappedInstruction(ucontext_t& thread) : thread_(thread) {}

  /// Reads the instruction. False: it is none that can be carried out.
  bool read();
  /// What it does at `address`; of a store of more than 8 bytes, the first 8. False: there is nothing to do
  /// there, or it is more than `bytes_max` bytes.
  bool access_at(uintptr_t address, unsigned bytes_max, TrappedAccess& access);
  /// After read(): a store of a vector register to [first, first + bytes), where the registers are as they
  /// are.
  bool stores_vector_to(uintptr_t first, size_t bytes) const;
  bool stores_vector() const { return what_.kind == MemoryInstruction::Kind::kStoreVector; }
  /// It is done, and `value` what a load has read: moves the thread on.
  void finish(const TrappedAccess& access, uint64_t value);

 private:
  void take(uint64_t value);
  void step();
  uintptr_t address() const;
  uint64_t vector_register(unsigned number) const;

  ucontext_t& thread_;
  MemoryInstruction what_;
};

}  // namespace verbatim
