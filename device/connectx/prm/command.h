// SPDX-License-Identifier: MIT
#pragma once

// One command of the ConnectX command interface, as its handler sees it. docs/prm.md shows how to add one.

#include <string>
#include <string_view>

#include "abi/prm/general.h"
#include "base/expected.h"
#include "device/connectx/prm/view.h"

namespace verbatim::prm {

class CommandUnit;

/// How a command ended: what goes into its output, and the cause in words. Status::kOk needs no reason.
struct [[nodiscard]] Result {
  Status status = Status::kOk;
  uint32_t syndrome = 0;  ///< names the check that failed; the same in every run
  std::string reason;

  bool ok() const { return status == Status::kOk; }
};

/// A refusal. The syndrome is made from the reason up to its first digit, so that a check keeps its syndrome
/// whatever numbers it names: "no CQ has number 12".
Result refuse(Status status, std::string reason);

/// The status that a ConnectX gives where the device says so with an errno value: EINVAL bad parameter,
/// ENOMEM limits exceeded, EBUSY bad resource state, ENOENT bad resource, EOPNOTSUPP bad operation, anything
/// else internal error.
Result refuse(const Error& error);

/// Success, or the refusal that the device's answer is.
Result result_of(const Outcome& outcome);

/// A command and its mailboxes, whose lengths have been checked. Output starts as zeros; status and syndrome
/// are written by the command table.
template <class Spec>
struct Command {
  CommandUnit& unit;
  uint16_t uid;  ///< of the user context that sends it; 0: the owner of the device
  View<typename Spec::In> in;
  Writer<typename Spec::Out> out;
};

}  // namespace verbatim::prm
