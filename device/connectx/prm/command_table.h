// SPDX-License-Identifier: MIT
#pragma once

// The way from a mailbox to the function that carries it out.

#include <cstdint>
#include <span>
#include <unordered_map>

#include "device/connectx/prm/command.h"

namespace verbatim::prm {

/// A command that this device carries out.
struct Entry {
  uint16_t opcode;
  uint32_t mod;  ///< or CommandInfo::kAnyMod
  Result (*run)(CommandUnit& unit, std::span<const uint8_t> in, std::span<uint8_t> out);
};

namespace detail {

template <class Spec, Result (*kHandler)(Command<Spec>&)>
Result run(CommandUnit& unit, std::span<const uint8_t> in, std::span<uint8_t> out) {
  const auto uid = static_cast<uint16_t>(View<MboxIn>(in)[MboxIn::uid]);
  Command<Spec> command{unit, uid, View<typename Spec::In>(in), Writer<typename Spec::Out>(out)};
  return kHandler(command);
}

template <auto kHandler>
struct Handled;

template <class Spec, Result (*kHandler)(Command<Spec>&)>
struct Handled<kHandler> {
  static constexpr Entry kEntry{Spec::kOpcode, Spec::kMod, run<Spec, kHandler>};
};

}  // namespace detail

/// The entry of a handler, a function Result(Command<Spec>&). Spec says which command it is for.
template <auto kHandler>
constexpr Entry entry() {
  return detail::Handled<kHandler>::kEntry;
}

/// What is said of an opcode that no command has.
std::string unknown_reason(uint16_t opcode);

/// What became of a mailbox.
struct Reply {
  const CommandInfo* command = nullptr;  ///< nullptr: the opcode is unknown
  Result result;                         ///< its reason begins with the command's name
};

/// Decides which handler gets a command. Immutable once made, thus safe for all threads.
class CommandTable {
 public:
  /// Each span is a group of entries; they need not outlive the table. An entry that commands.txt does not
  /// know, or that comes twice, is a mistake of the program: the table then has no such command.
  CommandTable(std::initializer_list<std::span<const Entry>> groups);

  /// Carries out a command. The input is copied first, so that it may change meanwhile and may overlap the
  /// output; both must be mapped. The output is cleared and gets status and syndrome, as far as it goes.
  Reply execute(CommandUnit& unit, std::span<const uint8_t> in, std::span<uint8_t> out) const;

  /// What is known of a command, nullptr if nothing is. A general object is found by its type, too, which is
  /// its op_mod.
  const CommandInfo* find(uint16_t opcode, uint16_t mod) const;

  /// True if a handler carries it out.
  bool offers(const CommandInfo& command) const;

 private:
  struct Known {
    const CommandInfo* info;
    decltype(Entry::run) run;
  };
  const Known* look_up(uint16_t opcode, uint16_t mod) const;
  Result run(const Known* known, CommandUnit& unit, std::span<const uint8_t> in,
             std::span<uint8_t> out) const;

  std::unordered_map<uint64_t, Known> commands_;
};

/// The commands of the soft ConnectX.
const CommandTable& command_table();

}  // namespace verbatim::prm
