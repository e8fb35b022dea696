// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "abi/prm/general.h"
#include "device/connectx/prm/command_table.h"
#include "device/connectx/prm/view.h"

namespace verbatim::test {

/// The mailboxes of one command, as a program writes and reads them.
template <class Spec>
struct Mailboxes {
  using In = typename Spec::In;
  using Out = typename Spec::Out;
  std::vector<uint8_t> sent, got;
  prm::Writer<In> in;
  prm::View<Out> out;

  /// With so many bytes behind both layouts, for lists.
  explicit Mailboxes(size_t more_bytes = 0)
      : sent(In::kBits / 8 + more_bytes), got(Out::kBits / 8 + more_bytes), in(sent), out(got) {
    const prm::Writer<prm::MboxIn> head(sent);
    head.set(prm::MboxIn::opcode, Spec::kOpcode);
    if (Spec::kMod != prm::CommandInfo::kAnyMod) head.set(prm::MboxIn::op_mod, Spec::kMod);
  }
  Mailboxes(const Mailboxes& other) : sent(other.sent), got(other.got), in(sent), out(got) {}
  Mailboxes& operator=(const Mailboxes&) = delete;
  uint32_t status() const { return got[0]; }
  uint32_t syndrome() const { return prm::View<prm::MboxOut>(got)[prm::MboxOut::syndrome]; }
};

}  // namespace verbatim::test
