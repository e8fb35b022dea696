// SPDX-License-Identifier: MIT
#include "base/trapped_instruction.h"

#include <cstring>

namespace verbatim {

#if defined(__x86_64__)

namespace {

using Kind = MemoryInstruction::Kind;

greg_t& register_of(ucontext_t& thread, unsigned number) {
  static constexpr int kPlaces[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return thread.uc_mcontext.gregs[kPlaces[number & 15]];
}

uint64_t low(uint64_t value, unsigned bytes) {
  return bytes >= 8 ? value : value & ((uint64_t{1} << 8 * bytes) - 1);
}

uint64_t extended(uint64_t value, unsigned bytes) {
  const unsigned shift = 64 - 8 * bytes;
  return static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
}

/// The register that a load or a store names; where a byte of it has a number of its own, that byte.
uint64_t read_register(ucontext_t& thread, const MemoryInstruction& what) {
  if (what.high_byte) return low(static_cast<uint64_t>(register_of(thread, what.reg - 4u)) >> 8, 1);
  return low(static_cast<uint64_t>(register_of(thread, what.reg)), what.bytes);
}

/// Half of a register that is written clears the other half; less leaves the rest as it is.
void write_register(ucontext_t& thread, unsigned number, unsigned bytes, bool high_byte, uint64_t value) {
  greg_t& place = register_of(thread, high_byte ? number - 4 : number);
  const auto before = static_cast<uint64_t>(place);
  const uint64_t wanted = low(value, bytes);
  if (bytes >= 4)
    place = static_cast<greg_t>(wanted);
  else if (high_byte)
    place = static_cast<greg_t>((before & ~uint64_t{0xff00}) | wanted << 8);
  else
    place = static_cast<greg_t>((before - low(before, bytes)) | wanted);
}

uint64_t read_plainly(uintptr_t address, unsigned bytes) {
  uint64_t value = 0;
  auto* to = reinterpret_cast<volatile uint8_t*>(&value);
  const auto* from = reinterpret_cast<const volatile uint8_t*>(address);
  for (unsigned i = 0; i < bytes; i++) to[i] = from[i];
  return value;
}

void write_plainly(uintptr_t address, unsigned bytes, uint64_t value) {
  auto* to = reinterpret_cast<volatile uint8_t*>(address);
  for (unsigned i = 0; i < bytes; i++) to[i] = static_cast<uint8_t>(value >> 8 * i);
}

bool is_string(Kind kind) { return kind == Kind::kCopy || kind == Kind::kFill || kind == Kind::kFetch; }

}  // namespace

bool TrappedInstruction::read() {
  return decode_memory_instruction(reinterpret_cast<const uint8_t*>(thread_.uc_mcontext.gregs[REG_RIP]),
                                   what_);
}

bool TrappedInstruction::access_at(uintptr_t address, unsigned bytes_max, TrappedAccess& access) {
  auto* registers = thread_.uc_mcontext.gregs;
  if (what_.bytes > bytes_max) return false;
  access.bytes = what_.bytes;
  access.store = true;
  switch (what_.kind) {
    case Kind::kStore:
      access.value = read_register(thread_, what_);
      break;
    case Kind::kStoreVector:
      access.value = low(vector_register(what_.reg), what_.bytes);
      break;
    case Kind::kStoreConstant:
      access.value = low(what_.constant, what_.bytes);
      break;
    case Kind::kFill:
      access.value = low(static_cast<uint64_t>(registers[REG_RAX]), what_.bytes);
      break;
    case Kind::kCopy:
      access.store = address == static_cast<uintptr_t>(registers[REG_RDI]);
      // May be trapped, too: then this thread's handler runs within itself.
      if (access.store) access.value = read_plainly(static_cast<uintptr_t>(registers[REG_RSI]), what_.bytes);
      break;
    case Kind::kLoad:
    case Kind::kFetch:
      access.store = false;
      break;
  }
  return !is_string(what_.kind) || !what_.repeated || registers[REG_RCX] != 0;
}

void TrappedInstruction::finish(const TrappedAccess& access, uint64_t value) {
  if (!access.store) take(value);
  if (is_string(what_.kind))
    step();
  else
    thread_.uc_mcontext.gregs[REG_RIP] += what_.length;
}

void TrappedInstruction::take(uint64_t value) {
  if (what_.kind == Kind::kLoad)
    write_register(thread_, what_.reg, what_.to_bytes, what_.high_byte,
                   what_.sign ? extended(value, what_.bytes) : low(value, what_.bytes));
  else if (what_.kind == Kind::kFetch)
    write_register(thread_, 0, what_.bytes, false, value);
  else
    write_plainly(static_cast<uintptr_t>(thread_.uc_mcontext.gregs[REG_RDI]), what_.bytes, value);
}

bool TrappedInstruction::stores_vector_to(uintptr_t first, size_t bytes) const {
  if (!stores_vector() || what_.segment || what_.narrow) return false;
  const uintptr_t at = address() - first;
  return at < bytes && what_.bytes <= bytes - at;
}

uintptr_t TrappedInstruction::address() const {
  auto at = static_cast<uintptr_t>(static_cast<intptr_t>(what_.displacement));
  if (what_.base == MemoryInstruction::kInstructionPointer)
    at += static_cast<uintptr_t>(thread_.uc_mcontext.gregs[REG_RIP]) + what_.length;
  else if (what_.base >= 0)
    at += static_cast<uintptr_t>(register_of(thread_, static_cast<unsigned>(what_.base)));
  if (what_.index >= 0)
    at += static_cast<uintptr_t>(register_of(thread_, static_cast<unsigned>(what_.index))) << what_.scale;
  return at;
}

// One step of a string operation has been made.
void TrappedInstruction::step() {
  auto* registers = thread_.uc_mcontext.gregs;
  constexpr greg_t kDirection = 0x400;
  const greg_t by = (registers[REG_EFL] & kDirection) != 0 ? -greg_t{what_.bytes} : greg_t{what_.bytes};
  if (what_.kind != Kind::kFetch) registers[REG_RDI] += by;
  if (what_.kind != Kind::kFill) registers[REG_RSI] += by;
  if (what_.repeated && --registers[REG_RCX] != 0) return;  // the instruction goes on
  registers[REG_RIP] += what_.length;
}

// The first 8 bytes. Of the upper sixteen, which are not in the old part of the saved state, 0.
uint64_t TrappedInstruction::vector_register(unsigned number) const {
  uint64_t value = 0;
  const fpregset_t saved = thread_.uc_mcontext.fpregs;
  if (saved != nullptr && number < 16) std::memcpy(&value, &saved->_xmm[number], sizeof value);
  return value;
}

#else

bool TrappedInstruction::read() { return false; }
bool TrappedInstruction::access_at(uintptr_t, unsigned, TrappedAccess&) { return false; }
void TrappedInstruction::finish(const TrappedAccess&, uint64_t) {}
bool TrappedInstruction::stores_vector_to(uintptr_t, size_t) const { return false; }

#endif

}  // namespace verbatim
