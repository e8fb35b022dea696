// SPDX-License-Identifier: MIT
// The command mailbox and the memory that commands name.
#include <cerrno>
#include <cinttypes>
#include <cstdio>

#include "abi/prm/receive_steering.h"
#include "device/connectx/connectx_hca.h"
#include "device/connectx/memory_range.h"
#include "device/connectx/prm/command_table.h"
#include "device/connectx/prm/object_life.h"

namespace verbatim::connectx {

namespace {

constexpr std::string_view kUmem = "UMEM";

/// With what the program finds in its mailbox, so that it can be looked up.
std::string told(const prm::Result& result) {
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, " (status 0x%x, syndrome 0x%" PRIx32 ")",
                static_cast<unsigned>(result.status), result.syndrome);
  return result.reason + numbers;
}

}  // namespace

void ConnectxHca::execute(std::span<const uint8_t> in, std::span<uint8_t> out) {
  const std::lock_guard hold(numbers_.lock);
  const prm::Reply reply = prm::command_table().execute(commands_, in, out);
  if (reply.result.ok()) {
    const prm::CommandInfo& command = *reply.command;
    const std::string_view kind = prm::object_kind(command);
    const uint32_t number = prm::object_number(command, in, out);
    if (command.undo != 0)
      show_object(kind, number);
    else if (prm::ends_object(command))
      hide_object(kind, number);
    else if (command.opcode == prm::ModifyRqt::kOpcode || command.opcode == prm::ModifyTir::kOpcode)
      commands_.follow_objects();
    return;
  }
  explain(0, static_cast<int>(engine::kRefusal | EREMOTEIO), told(reply.result).c_str());
}

// Memory that a command makes is shown by what the host side calls, too.
void ConnectxHca::show_object(std::string_view kind, uint32_t number) {
  if (shown_.contains({std::string(kind), number})) return;
  if (const auto place = engine_.object_board().show(kind, number))
    shown_[{std::string(kind), number}] = *place;
}

void ConnectxHca::hide_object(std::string_view kind, uint32_t number) {
  const auto found = shown_.find({std::string(kind), number});
  if (found == shown_.end()) return;
  engine_.object_board().hide(found->second);
  shown_.erase(found);
}

Expected<hw::Umem*> ConnectxHca::create_umem(const hw::UmemSpec& spec) {
  constexpr uint32_t kKnown =
      engine::kLocalWrite | engine::kRemoteWrite | engine::kRemoteRead | engine::kRelaxedOrdering;
  if (spec.access & ~kKnown) return Error{EINVAL, "a umem takes local write, remote write and remote read"};
  if ((spec.access & engine::kRemoteWrite) && !(spec.access & engine::kLocalWrite))
    return Error{EINVAL, "remote write access needs local write access too"};
  if (spec.length == 0) return Error{EINVAL, "the umem's length is 0"};
  if (Outcome mapped = check_range(spec.address, spec.length, (spec.access & engine::kLocalWrite) != 0);
      !mapped)
    return mapped.error();
  auto umem = std::make_unique<UmemObject>();
  umem->spec = spec;
  const std::lock_guard hold(numbers_.lock);
  if ((umem->number = numbers_.umem_numbers.take()) == 0)
    return Error{ENOMEM, "all umems of the device are in use"};
  numbers_.umems[umem->number] = umem.get();
  show_object(kUmem, umem->number);
  return static_cast<hw::Umem*>(umem.release());
}

Outcome ConnectxHca::destroy_umem(hw::Umem* face) {
  auto* umem = static_cast<UmemObject*>(face);
  const std::lock_guard hold(numbers_.lock);
  if (umem->users != 0) return Error{EBUSY, "objects still lie in the umem"};
  numbers_.umems.erase(umem->number);
  hide_object(kUmem, umem->number);
  numbers_.umem_numbers.give_back(umem->number);
  delete umem;
  return Done{};
}

}  // namespace verbatim::connectx
