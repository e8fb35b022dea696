// SPDX-License-Identifier: MIT
#pragma once

// DEVX: a program sends command mailboxes to the device. Which call may send which command is said here, as
// the kernel's driver says it on a machine with a ConnectX; everything else the device decides.

#include <cstdint>
#include <span>
#include <vector>

#include "device/connectx/prm/command_table.h"
#include "lib/mlx5/direct.h"
#include "lib/mlx5/mlx5.h"
#include "lib/mlx5/public.h"

namespace verbatim::mlx5::devx {

/// The two mailboxes of a call, as the program gave them.
struct Boxes {
  std::span<const uint8_t> in;
  std::span<uint8_t> out;

  Boxes(const void* in_data, size_t in_bytes, void* out_data, size_t out_bytes)
      : in(static_cast<const uint8_t*>(in_data), in_bytes), out(static_cast<uint8_t*>(out_data), out_bytes) {}
};

/// An object that a command may name.
struct Target {
  std::string_view kind;  ///< as prm::object_kind()
  uint32_t number = 0;
};

/// The command in the mailbox if the call of that name may send it: one of this kind. EINVAL: not, or a
/// mailbox is shorter than the head of all commands, or longer than 65535 bytes.
Expected<const prm::CommandInfo*> allowed(const char* call, prm::Kind kind, const Boxes& boxes);

/// The same for a query or modify command, which must be about the target.
Outcome allowed_about(const char* call, prm::Kind kind, const Boxes& boxes, const Target& target);

/// Whether the device has failed, and takes none but those that destroy.
bool is_lost(const verbs::Context& context, std::span<const uint8_t> in);

/// Sends a mailbox. 0, or EREMOTEIO if the device refuses: `out` says why; EIO if it has failed.
int send(verbs::Context& context, std::span<const uint8_t> in, std::span<uint8_t> out);

/// A number for a doorbell page of the device, and its end: 0, or EBUSY queues are still rung there.
Expected<uint32_t> take_page_number(verbs::Context& context);
int give_page_number_back(verbs::Context& context, uint32_t number);

/// Sends a mailbox that destroys something, where there is no other to answer in. 0, EBUSY it is in use,
/// ENOENT, EREMOTEIO.
int destroy(verbs::Context& context, std::span<const uint8_t> undo);

/// An event of the device goes to the channels that want it; an interrupt to its descriptor. Called from any
/// thread.
void tell_subscribers(verbs::Context& context, const hw::DeviceEvent& event);
void raise_interrupt(verbs::Context& context, uint32_t vector);

/// What is known of all commands.
const prm::CommandTable& known_commands();

}  // namespace verbatim::mlx5::devx

/// What a program holds of an object made by command.
struct mlx5dv_devx_obj {
  verbatim::verbs::Context* context;
  verbatim::mlx5::devx::Target target;
  std::vector<uint8_t> undo;  ///< mailbox that destroys it; empty: nothing to do
};
