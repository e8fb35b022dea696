// SPDX-License-Identifier: MIT
#include "device/connectx/prm/object_life.h"

#include <algorithm>

#include "abi/prm/dynamic_connections.h"

namespace verbatim::prm {

namespace {

void copy_bits(std::span<const uint8_t> from, std::span<uint8_t> to, BitRange range) {
  while (range.width > 0) {
    const uint32_t step = std::min(range.width, 64u);
    write_bits(to, range.offset, step, read_bits(from, range.offset, step));
    range.offset += step;
    range.width -= step;
  }
}

uint32_t number_at(std::span<const uint8_t> box, BitRange range) {
  return range.width ? static_cast<uint32_t>(read_bits(box, range.offset, range.width)) : 0;
}

struct NamedOtherwise {
  std::string_view command, kind;
};

/// Commands whose names do not end in the kind of their object.
constexpr NamedOtherwise kNamedOtherwise[] = {
    {"QP_2ERR", "QP"},
    {"QP_2RST", "QP"},
    {"ARM_RQ", "SRQ"},
    {"ARM_DCT_FOR_KEY_VIOLATION", "DCT"},
    {"SET_XRQ_DC_PARAMS_ENTRY", "XRQ"},
    {"ATTACH_TO_MCG", "MCG"},
    {"DETACH_FROM_MCG", "MCG"},
};

}  // namespace

std::string_view object_kind(const CommandInfo& command) {
  const std::string_view name = command.name;
  const auto* other = std::ranges::find(kNamedOtherwise, name, &NamedOtherwise::command);
  return other != std::end(kNamedOtherwise) ? other->kind : name.substr(name.find('_') + 1);
}

bool ends_object(const CommandInfo& command) {
  return command.kind == Kind::kDestroy && command.opcode != DrainDct::kOpcode;
}

uint32_t object_number(const CommandInfo& command, std::span<const uint8_t> in,
                       std::span<const uint8_t> out) {
  return command.id_out.width ? number_at(out, command.id_out) : number_at(in, command.id_in);
}

std::vector<uint8_t> undo_input(const CommandTable& table, const CommandInfo& made_by,
                                std::span<const uint8_t> in, std::span<const uint8_t> out) {
  if (made_by.undo == 0) return {};
  const View<MboxIn> head(in);
  const CommandInfo* undo = table.find(made_by.undo, static_cast<uint16_t>(head[MboxIn::op_mod]));
  std::vector<uint8_t> box(undo->in_bytes);
  const Writer<MboxIn> made(box);
  made.set(MboxIn::opcode, undo->opcode);
  made.set(MboxIn::uid, head[MboxIn::uid]);
  for (const BitRange& range : made_by.kept) copy_bits(in, box, range);
  if (undo->id_in.width)
    write_bits(box, undo->id_in.offset, undo->id_in.width, number_at(out, made_by.id_out));
  return box;
}

}  // namespace verbatim::prm
