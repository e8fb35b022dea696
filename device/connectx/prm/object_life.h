// SPDX-License-Identifier: MIT
#pragma once

// What is known of an object from the mailboxes that made it, for those who keep objects on behalf of a
// program.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "device/connectx/prm/command_table.h"

namespace verbatim::prm {

/// The kind of object that a command is about, the same for all commands of a kind: "CQ", "QP",
/// "GENERAL_OBJECT". Of commands that are about none: some name that no other has.
std::string_view object_kind(const CommandInfo& command);

/// Whether nothing is left of the object after the command. DRAIN_DCT, which no call of direct verbs may send
/// either, is only a step on the way.
bool ends_object(const CommandInfo& command);

/// The number of the object that a command is about: from the output of what makes one, from the input of all
/// others. 0 where the command has none, or the mailbox is too short.
uint32_t object_number(const CommandInfo& command, std::span<const uint8_t> in, std::span<const uint8_t> out);

/// The input of the command that destroys what a command has made, as the same user; empty if nothing needs
/// to be destroyed.
std::vector<uint8_t> undo_input(const CommandTable& table, const CommandInfo& made_by,
                                std::span<const uint8_t> in, std::span<const uint8_t> out);

}  // namespace verbatim::prm
