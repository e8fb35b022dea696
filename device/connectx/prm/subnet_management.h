// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

#include "device/connectx/prm/command_unit.h"

namespace verbatim::prm {

/// A management datagram as it goes through a command.
using ManagementDatagram = std::array<uint8_t, 256>;

/// Turns a question about the device's port into the answer of its subnet management agent. What the agent
/// does not keep, and every attempt to set something, is answered with a status that says so.
void answer_management(CommandUnit& unit, ManagementDatagram& mad);

}  // namespace verbatim::prm
