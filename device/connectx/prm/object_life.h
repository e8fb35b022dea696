// SPDX-License-Identifier: MIT
#pragma once

// What is known of an object from the mailboxes that made it, for those who keep objects on behalf of a
// program.

#include <cstdint>
#include <span>
#include <vector>

#include "device/connectx/prm/command_table.h"

namespace verbatim::prm {

/// The number of the object that a command is about: from the output of what makes one, from the input of all
/// others. 0 where the command has none, or the mailbox is too short.
uint32_t object_number(const CommandInfo& command, std::span<const uint8_t> in, std::span<const uint8_t> out);

/// The input of the command that destroys what a command has made, as the same user; empty if nothing needs
/// to be destroyed.
std::vector<uint8_t> undo_input(const CommandTable& table, const CommandInfo& made_by,
                                std::span<const uint8_t> in, std::span<const uint8_t> out);

}  // namespace verbatim::prm
