// SPDX-License-Identifier: MIT
#include "base/memory_instruction.h"

namespace verbatim {

namespace {

using Kind = MemoryInstruction::Kind;

constexpr uint8_t kRexWide = 8, kRexRegister = 4, kRexIndex = 2, kRexBase = 1;
constexpr uint8_t kVexLong = 0xc4, kVexShort = 0xc5, kEvex = 0x62;
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
    const bool known = opcode == 0x0f                                                 ? two_bytes(next())
                       : opcode == kVexLong || opcode == kVexShort || opcode == kEvex ? vector(opcode)
                                                                                      : one_byte(opcode);
    out_.length = static_cast<uint8_t>(at_);
    return known && !locked_;
  }

 private:
  /// As the prefixes of vectors number them.
  enum class Selector : uint8_t { kNone, k66, kF3, kF2 };

  uint8_t next() { return code_[at_++]; }

  bool is_prefix(uint8_t byte) {
    switch (byte) {
      case 0x66:
        return narrow_ = true;
      case 0xf2:
      case 0xf3:
        return out_.repeated = (selector_ = byte == 0xf3 ? Selector::kF3 : Selector::kF2) != Selector::kNone;
      case 0xf0:
        return locked_ = true;
      case 0x2e:
      case 0x36:
      case 0x3e:
      case 0x26:
        return true;
      case 0x64:
      case 0x65:
        return out_.segment = true;
      case 0x67:
        return out_.narrow = true;
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
        return vector_store(opcode, narrow_ && selector_ == Selector::kNone ? Selector::k66 : selector_, 16);
    }
  }

  /// An instruction with a prefix of 2, 3 or 4 bytes, which holds what REX and the older prefixes say.
  bool vector(uint8_t prefix) {
    const uint8_t first = next();
    const uint8_t last = prefix == kVexShort ? first : next();
    const uint8_t masks = prefix == kEvex ? next() : 0;
    const unsigned map = prefix == kVexShort ? 1 : first & (prefix == kEvex ? 7 : 31);
    const unsigned size = prefix == kEvex ? masks >> 5 & 3 : last >> 2 & 1;
    constexpr uint8_t kMaskedOrBroadcast = 0x17;
    if (map != 1 || size == 3 || (masks & kMaskedOrBroadcast) != 0) return false;
    rex_ = static_cast<uint8_t>(0x40 | ((first & 0x80) != 0 ? 0 : kRexRegister));
    if (prefix != kVexShort) {
      if ((last & 0x80) != 0) rex_ |= kRexWide;
      if ((first & 0x40) == 0) rex_ |= kRexIndex;
      if ((first & 0x20) == 0) rex_ |= kRexBase;
    }
    evex_ = prefix == kEvex;
    upper_ = evex_ && (first & 0x10) == 0;
    return vector_store(next(), static_cast<Selector>(last & 3), static_cast<uint8_t>(16u << size));
  }

  bool vector_store(uint8_t opcode, Selector selector, uint8_t whole) {
    const bool plain = selector == Selector::kNone || selector == Selector::k66;
    uint8_t bytes = 0;
    switch (opcode) {
      case 0x11:  // MOVUPS, MOVUPD, MOVSS, MOVSD
        bytes = plain ? whole : selector == Selector::kF3 ? 4 : 8;
        break;
      case 0x13:  // MOVLPS, MOVLPD
        bytes = plain ? 8 : 0;
        break;
      case 0x29:  // MOVAPS, MOVAPD
      case 0x2b:  // MOVNTPS, MOVNTPD
        bytes = plain ? whole : 0;
        break;
      case 0x7e:  // MOVD, MOVQ
        bytes = selector != Selector::k66 ? 0 : rex_ & kRexWide ? 8 : 4;
        break;
      case 0x7f:  // MOVDQA, MOVDQU
        bytes = selector == Selector::kNone ? 0 : whole;
        break;
      case 0xd6:  // MOVQ
        bytes = selector == Selector::k66 ? 8 : 0;
        break;
      case 0xe7:  // MOVNTDQ
        bytes = selector == Selector::k66 ? whole : 0;
        break;
      default:
        break;
    }
    if (bytes == 0 || !to_memory(Kind::kStoreVector, bytes)) return false;
    out_.repeated = false;
    if (upper_) out_.reg = static_cast<uint8_t>(out_.reg + 16);
    return true;
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

  /// The register, and where the memory is.
  bool operands(uint8_t register_bytes) {
    const uint8_t byte = next();
    const unsigned mode = byte >> 6, memory = byte & 7;
    if (mode == 3) return false;
    out_.reg = static_cast<uint8_t>((byte >> 3 & 7) + (rex_ & kRexRegister ? 8 : 0));
    out_.high_byte = register_bytes == 1 && rex_ == 0 && out_.reg >= 4;
    unsigned displaced = mode == 1 ? 1 : mode == 2 ? 4 : 0;
    unsigned base = memory;
    if (memory == 4) {
      const uint8_t scaled = next();
      const unsigned index = (scaled >> 3 & 7) + (rex_ & kRexIndex ? 8 : 0);
      if (index != 4) out_.index = static_cast<int8_t>(index);
      out_.scale = scaled >> 6;
      base = scaled & 7;
    }
    if (mode == 0 && base == 5) {
      displaced = 4;
      if (memory == 5) out_.base = MemoryInstruction::kInstructionPointer;
    } else {
      out_.base = static_cast<int8_t>(base + (rex_ & kRexBase ? 8 : 0));
    }
    take_displacement(displaced);
    return at_ <= kLengthMax;
  }

  /// One byte counts in units of what a vector of the newer kind moves.
  void take_displacement(unsigned bytes) {
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= uint32_t{next()} << 8 * i;
    out_.displacement = static_cast<int32_t>(value);
    if (bytes == 1) out_.displacement = static_cast<int8_t>(value) * (evex_ ? out_.bytes : 1);
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
  bool narrow_ = false, locked_ = false, evex_ = false, upper_ = false;
  Selector selector_ = Selector::kNone;
};

}  // namespace

bool decode_memory_instruction(const uint8_t* code, MemoryInstruction& found) {
  found = {};
  return Decoder(code, found).decode();
}

}  // namespace verbatim
