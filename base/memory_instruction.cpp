// SPDX-License-Identifier: MIT
#include "base/memory_instruction.h"

namespace verbatim {

namespace {

using Kind = MemoryInstruction::Kind;

constexpr uint8_t kRexWide = 8, kRexRegister = 4;
constexpr unsigned kLengthMax = 15;

/// Takes the bytes of one instruction, none behind it: they may not be there.
class Decoder {
 public:
  Decoder(const uint8_t* code, MemoryInstruction& out) : code_(code), out_(out) {}

  bool decode() {
    uint8_t opcode = next();
    for (; is_prefix(opcode); opcode = next())
      if (at_ == kLengthMax) return false;
    if ((opcode & 0xf0) == 0x40) {
      rex_ = opcode;
      opcode = next();
    }
    const bool known = opcode == 0x0f ? two_bytes(next()) : one_byte(opcode);
    out_.length = static_cast<uint8_t>(at_);
    return known && !locked_;
  }

 private:
  uint8_t next() { return code_[at_++]; }

  bool is_prefix(uint8_t byte) {
    switch (byte) {
      case 0x66:
        return narrow_ = true;
      case 0xf2:
      case 0xf3:
        return out_.repeated = true;
      case 0xf0:
        return locked_ = true;
      case 0x2e:
      case 0x36:
      case 0x3e:
      case 0x26:
      case 0x64:
      case 0x65:
      case 0x67:
        return true;
      default:
        return false;
    }
  }

  uint8_t width() const { return rex_ & kRexWide ? 8 : narrow_ ? 2 : 4; }

  bool one_byte(uint8_t opcode) {
    const uint8_t bytes = opcode & 1 ? width() : uint8_t{1};
    switch (opcode) {
      case 0x88:
      case 0x89:
        return to_memory(Kind::kStore, bytes);
      case 0x8a:
      case 0x8b:
        return from_memory(bytes, bytes, false);
      case 0x63:
        return from_memory(4, width(), true);
      case 0xc6:
      case 0xc7:
        return to_memory(Kind::kStoreConstant, bytes) && out_.reg == 0 && take_constant();
      case 0xa4:
      case 0xa5:
        return string(Kind::kCopy, bytes);
      case 0xaa:
      case 0xab:
        return string(Kind::kFill, bytes);
      case 0xac:
      case 0xad:
        return string(Kind::kFetch, bytes);
      default:
        return false;
    }
  }

  bool two_bytes(uint8_t opcode) {
    switch (opcode) {
      case 0xb6:
      case 0xb7:
      case 0xbe:
      case 0xbf:
        return from_memory(opcode & 1 ? 2 : 1, width(), (opcode & 8) != 0);
      case 0xc3:  // MOVNTI
        return to_memory(Kind::kStore, width());
      default:
        return false;
    }
  }

  bool to_memory(Kind kind, uint8_t bytes) {
    out_.kind = kind;
    out_.bytes = out_.to_bytes = bytes;
    return operands(bytes);
  }
  bool from_memory(uint8_t bytes, uint8_t to_bytes, bool sign) {
    out_.kind = Kind::kLoad;
    out_.bytes = bytes;
    out_.to_bytes = to_bytes;
    out_.sign = sign;
    return operands(to_bytes);
  }
  bool string(Kind kind, uint8_t bytes) {
    out_.kind = kind;
    out_.bytes = out_.to_bytes = bytes;
    return true;
  }

  /// The register, and over what says where the memory is: the fault has said that already.
  bool operands(uint8_t register_bytes) {
    const uint8_t byte = next();
    const unsigned mode = byte >> 6, memory = byte & 7;
    if (mode == 3) return false;
    out_.reg = static_cast<uint8_t>((byte >> 3 & 7) + (rex_ & kRexRegister ? 8 : 0));
    out_.high_byte = register_bytes == 1 && rex_ == 0 && out_.reg >= 4;
    unsigned displacement = mode == 1 ? 1 : mode == 2 ? 4 : 0;
    if (memory == 4) {
      if (mode == 0 && (next() & 7) == 5)
        displacement = 4;
      else if (mode != 0)
        next();
    } else if (mode == 0 && memory == 5) {
      displacement = 4;
    }
    at_ += displacement;
    return at_ <= kLengthMax;
  }

  bool take_constant() {
    const unsigned bytes = out_.bytes == 8 ? 4 : out_.bytes;
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= uint64_t{next()} << 8 * i;
    if (out_.bytes == 8) value = static_cast<uint64_t>(int64_t{static_cast<int32_t>(value)});
    out_.constant = value;
    out_.high_byte = false;
    return true;
  }

  const uint8_t* code_;
  MemoryInstruction& out_;
  unsigned at_ = 0;
  uint8_t rex_ = 0;
  bool narrow_ = false, locked_ = false;
};

}  // namespace

bool decode_memory_instruction(const uint8_t* code, MemoryInstruction& found) {
  found = {};
  return Decoder(code, found).decode();
}

}  // namespace verbatim
