// SPDX-License-Identifier: MIT
#include "tools/doctor/command.h"

#include "tools/doctor/doctor.h"

namespace verbatim::doctor {

Command::Command(CLI::App& app)
    : command_(app.add_subcommand("doctor", "Say why this host and another cannot talk, or that they can")) {
  command_->add_option("host", host_, "Name, IP address or GID of the other one; without it, this one alone");
  command_->add_flag("--json", json_, "Print JSON");
  command_->add_option("--patience", patience_s_, "How many seconds an answer may take")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  command_->add_flag("--listen", listen_, "Have the port open until interrupted, for the other host's doctor")
      ->excludes("host", "--json", "--patience");
}

int Command::run() const {
  if (listen_) return listen();
  return doctor(host_, json_, static_cast<uint64_t>(patience_s_ * 1e9));
}

}  // namespace verbatim::doctor
