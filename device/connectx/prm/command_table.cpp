// SPDX-License-Identifier: MIT
#include "device/connectx/prm/command_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "device/connectx/prm/command_unit.h"

namespace verbatim::prm {

namespace {

uint64_t key_of(uint16_t opcode, uint32_t mod) { return uint64_t{opcode} << 32 | mod; }

std::string length_reason(const char* which, size_t bytes, uint32_t needed) {
  return std::string("its ") + which + " has " + std::to_string(bytes) + " bytes and needs " +
         std::to_string(needed);
}

/// The input where nobody else can write it; most fit the space within.
class Copy {
 public:
  explicit Copy(std::span<const uint8_t> from) {
    uint8_t* to = small_.data();
    if (from.size() > small_.size()) {
      large_.resize(from.size());
      to = large_.data();
    }
    std::ranges::copy(from, to);
    bytes_ = {to, from.size()};
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::array<uint8_t, 512> small_;
  std::vector<uint8_t> large_;
  std::span<const uint8_t> bytes_;
};

}  // namespace

std::string unknown_reason(uint16_t opcode) {
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "no command has opcode 0x%x", opcode);
  return text.data();
}

CommandTable::CommandTable(std::initializer_list<std::span<const Entry>> groups) {
  for (const CommandInfo& info : all_commands()) commands_[key_of(info.opcode, info.mod)] = {&info, nullptr};
  for (const auto& group : groups) {
    for (const Entry& entry : group) {
      const auto found = commands_.find(key_of(entry.opcode, entry.mod));
      if (found != commands_.end()) found->second.run = entry.run;
    }
  }
}

const CommandTable::Known* CommandTable::look_up(uint16_t opcode, uint16_t mod) const {
  auto found = commands_.find(key_of(opcode, mod));
  if (found == commands_.end()) found = commands_.find(key_of(opcode, CommandInfo::kAnyMod));
  return found == commands_.end() ? nullptr : &found->second;
}

const CommandInfo* CommandTable::find(uint16_t opcode, uint16_t mod) const {
  const Known* known = look_up(opcode, mod);
  return known ? known->info : nullptr;
}

bool CommandTable::offers(const CommandInfo& command) const {
  const auto found = commands_.find(key_of(command.opcode, command.mod));
  return found != commands_.end() && found->second.run;
}

Reply CommandTable::execute(CommandUnit& unit, std::span<const uint8_t> in, std::span<uint8_t> out) const {
  const Copy copy(in);
  std::ranges::fill(out, uint8_t{0});
  const View<MboxIn> header(copy.bytes());
  const Known* known =
      look_up(static_cast<uint16_t>(header[MboxIn::opcode]), static_cast<uint16_t>(header[MboxIn::op_mod]));
  Reply reply{known ? known->info : nullptr, run(known, unit, copy.bytes(), out)};
  if (!reply.result.ok()) {
    std::ranges::fill(out, uint8_t{0});
    if (known) reply.result.reason = std::string(known->info->name) + ": " + reply.result.reason;
  }
  const Writer<MboxOut> answer(out);
  answer.set(MboxOut::status, reply.result.status);
  answer.set(MboxOut::syndrome, reply.result.syndrome);
  return reply;
}

Result CommandTable::run(const Known* known, CommandUnit& unit, std::span<const uint8_t> in,
                         std::span<uint8_t> out) const {
  if (in.size() < MboxIn::kBits / 8)
    return refuse(Status::kBadInpLenErr, "the input is shorter than a command's head");
  if (!known)
    return refuse(Status::kBadOpErr, unknown_reason(static_cast<uint16_t>(View<MboxIn>(in)[MboxIn::opcode])));
  const CommandInfo& info = *known->info;
  if (!known->run) return refuse(Status::kBadOpErr, "the device does not offer it");
  if (in.size() < info.in_bytes)
    return refuse(Status::kBadInpLenErr, length_reason("input", in.size(), info.in_bytes));
  if (out.size() < info.out_bytes)
    return refuse(Status::kBadOutpLenErr, length_reason("output", out.size(), info.out_bytes));
  const auto uid = static_cast<uint16_t>(View<MboxIn>(in)[MboxIn::uid]);
  // What a context has left behind can still be destroyed.
  if (info.kind != Kind::kDestroy && !unit.has_user_context(uid))
    return refuse(Status::kBadParamErr, "there is no user context of number " + std::to_string(uid));
  return known->run(unit, in, out);
}

}  // namespace verbatim::prm
