// SPDX-License-Identifier: MIT
#pragma once

// Command mailboxes that this library sends for calls of its own.

#include <array>
#include <cerrno>

#include "abi/prm/general.h"
#include "device/connectx/prm/view.h"
#include "lib/mlx5/devx.h"

namespace verbatim::mlx5::devx {

/// One command of the given kind and its answer.
template <class Spec>
class TypedCommand {
 public:
  using In = typename Spec::In;
  using Out = typename Spec::Out;

  TypedCommand() {
    const prm::Writer<prm::MboxIn> head(sent_);
    head.set(prm::MboxIn::opcode, Spec::kOpcode);
    if (Spec::kMod != prm::CommandInfo::kAnyMod) head.set(prm::MboxIn::op_mod, Spec::kMod);
  }

  /// 0, or the errno value that the kernel's driver would make of the device's status.
  int send(verbs::Context& context) {
    const int error = devx::send(context, sent_, got_);
    if (error == 0 || error == EIO) return error;
    switch (prm::View<prm::MboxOut>(got_).as<prm::Status>(prm::MboxOut::status)) {
      case prm::Status::kLimErr:
        return ENOMEM;
      case prm::Status::kBadOpErr:
        return EOPNOTSUPP;
      case prm::Status::kBadResStateErr:
        return EBUSY;
      default:
        return EINVAL;
    }
  }

  prm::Writer<In> in() { return prm::Writer<In>(sent_); }
  prm::View<Out> out() const { return prm::View<Out>(got_); }

 private:
  std::array<uint8_t, In::kBits / 8> sent_{};
  std::array<uint8_t, Out::kBits / 8> got_{};
};

}  // namespace verbatim::mlx5::devx
