// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "device/connectx/prm/command_table.h"

namespace verbatim::prm {

// The groups of commands that the device carries out, one source each.
std::span<const Entry> general_commands();
std::span<const Entry> capability_commands();
std::span<const Entry> completion_queue_commands();
std::span<const Entry> dct_commands();
std::span<const Entry> domain_commands();
std::span<const Entry> event_queue_commands();
std::span<const Entry> counter_commands();
std::span<const Entry> key_commands();
std::span<const Entry> port_commands();
std::span<const Entry> protection_commands();
std::span<const Entry> qp_commands();
std::span<const Entry> register_commands();
std::span<const Entry> raw_queue_commands();
std::span<const Entry> scheduling_commands();
std::span<const Entry> steering_commands();
std::span<const Entry> user_context_commands();
std::span<const Entry> work_queue_commands();

}  // namespace verbatim::prm
