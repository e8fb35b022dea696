// SPDX-License-Identifier: MIT
#pragma once

// What the generated headers of abi/prm describe layouts with. A layout is a struct without data: its members
// say where each field lies. Bits are counted from the start of the layout, the most significant bit of its
// first byte being 0, as the programmer's reference manual counts them; all numbers are big-endian.

#include <cstdint>
#include <span>
#include <type_traits>

namespace verbatim::prm {

/// What a field of so many bits is read into.
template <unsigned kWidth>
using Value = std::conditional_t<kWidth == 1, bool, std::conditional_t<kWidth <= 32, uint32_t, uint64_t>>;

/// A number of kWidth bits, 1 to 64, of Layout.
template <class Layout, unsigned kWidth>
struct Field {
  static_assert(kWidth >= 1 && kWidth <= 64);
  uint32_t offset;
};

/// Another layout within Layout.
template <class Layout, class Inner>
struct Nested {
  uint32_t offset;
};

/// How many elements an array has that goes on to the end of its mailbox.
constexpr uint32_t kToTheEnd = 0;

/// Equal numbers of kWidth bits, one after the other.
template <class Layout, unsigned kWidth>
struct Array {
  static_assert(kWidth >= 1 && kWidth <= 64);
  uint32_t offset;
  uint32_t count;  ///< or kToTheEnd
};

/// Equal layouts, one after the other.
template <class Layout, class Inner>
struct NestedArray {
  uint32_t offset;
  uint32_t count;  ///< or kToTheEnd
};

/// Which call of direct verbs may send a command; abi/prm/commands.txt explains them.
enum class Kind : uint8_t { kCreate, kQuery, kModify, kDestroy, kGeneral, kOwner };

/// Bits of a mailbox; no bits where width is 0.
struct BitRange {
  uint32_t offset = 0;
  uint32_t width = 0;
};

/// One line of abi/prm/commands.txt.
struct CommandInfo {
  static constexpr uint32_t kAnyMod = 0x10000;

  const char* name;  ///< "CREATE_CQ"
  uint16_t opcode;
  uint32_t mod;  ///< the op_mod that it is for, or kAnyMod
  Kind kind;
  uint32_t in_bytes, out_bytes;  ///< the shortest mailboxes that are taken
  BitRange id_in, id_out;        ///< where the object's number is
  uint16_t undo;                 ///< opcode that destroys what this one makes; 0: none
  BitRange kept[2];              ///< what the undoing input has in common with this one's, besides the uid
  const char* in_layout;
  const char* out_layout;
};

/// All commands of commands.txt, sorted by opcode, then mod.
std::span<const CommandInfo> all_commands();

/// A field of a layout at run time, structures within it taken apart: "qpc.primary_address_path.rlid". Arrays
/// appear as their first element, with the number of them.
struct FieldInfo {
  const char* layout;  ///< "create_qp_in"
  const char* path;
  uint32_t offset, width;  ///< bits
  uint32_t count;          ///< elements; 1 for a plain field; kToTheEnd
};

/// The fields of every command's mailboxes, grouped by layout. For what builds or prints mailboxes of any
/// kind.
std::span<const FieldInfo> all_fields();

}  // namespace verbatim::prm
