// SPDX-License-Identifier: MIT
#pragma once

// Commands that the host's side sends for verbs, as a kernel's driver does: their objects belong to no user
// context, and all may ask for them.

#include <vector>

#include "device/connectx/prm/view.h"
#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {

/// Sends a mailbox. 0, or the errno value that verbs have for the device's refusal.
int send_for_host(verbs::Context& context, std::span<const uint8_t> in, std::span<uint8_t> out);

/// The mailboxes of one command.
template <class Spec>
class HostCommand {
 public:
  using In = typename Spec::In;
  using Out = typename Spec::Out;
  /// With so many bytes behind the layout, for lists.
  explicit HostCommand(size_t more_bytes = 0) : sent_(In::kBits / 8 + more_bytes), got_(Out::kBits / 8) {
    in().set(In::opcode, Spec::kOpcode);
  }
  prm::Writer<In> in() { return prm::Writer<In>(sent_); }
  prm::View<Out> out() const { return prm::View<Out>(got_); }
  int send(verbs::Context& context) { return send_for_host(context, sent_, got_); }

 private:
  std::vector<uint8_t> sent_, got_;
};

}  // namespace verbatim::mlx5
