// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim {

/// The instruction of x86-64 at which a thread has stopped: a move between memory and a register or a
/// constant, a store of a vector register, or one step of a string operation.
struct MemoryInstruction {
  enum class Kind : uint8_t {
    kLoad,
    kStore,
    kStoreConstant,
    kStoreVector,
    kCopy,
    kFill,
    kFetch
  };  ///< the last three: MOVS, STOS, LODS
  Kind kind{};
  uint8_t length = 0;      ///< bytes of the instruction
  uint8_t bytes = 0;       ///< bytes that it moves: 1, 2, 4 or 8; of a vector 4 to 64
  uint8_t to_bytes = 0;    ///< bytes of the register that a load writes
  bool sign = false;       ///< a load extends the sign
  bool repeated = false;   ///< a string operation that counts RCX down
  bool high_byte = false;  ///< the register is AH, CH, DH or BH
  uint8_t reg = 0;         ///< register by its number in the instruction
  uint64_t constant = 0;   ///< of kStoreConstant
  /// Where the memory is, but for string operations: registers by number, or one of these.
  static constexpr int8_t kNone = -1, kInstructionPointer = 16;
  int8_t base = kNone, index = kNone;
  uint8_t scale = 0;     ///< the index counts 1 << scale times
  bool segment = false;  ///< relative to FS or GS
  bool narrow = false;   ///< an address of 32 bits
  int32_t displacement = 0;
};

/// Reads the instruction at `code`. False: it is none of these.
bool decode_memory_instruction(const uint8_t* code, MemoryInstruction& found);

}  // namespace verbatim
