// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "agent/client.h"
#include "base/clock.h"
#include "wire/link/shm/shm_fabric.h"

namespace verbatim::doctor {

/// This process's place among the agent's, as a program with a device open has it: what keeps a program from
/// joining keeps this from it, for the same reasons.
class Membership final : private agent::NoticeSink {
 public:
  /// Starts the agent where none runs. Errors: as of AgentClient::join.
  static Expected<std::unique_ptr<Membership>> join();
  ~Membership() override;

  /// Opens UDP port 4791. EADDRINUSE: it is somebody else's.
  Outcome open_port();
  /// Stays until a signal to end comes.
  void stay();

 private:
  Membership() = default;
  void on_gone(uint32_t, uint64_t) override {}
  void on_gids_changed() override {}
  void on_link(bool) override {}

  SystemClock clock_;
  std::unique_ptr<wire::shm::ShmFabric> fabric_;
  std::unique_ptr<agent::AgentClient> client_;
  int port_ = -1;
};

}  // namespace verbatim::doctor
