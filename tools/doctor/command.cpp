// SPDX-License-Identifier: MIT
#include "tools/doctor/command.h"

#include "tools/doctor/doctor.h"

namespace verbatim::doctor {

Command::Command(CLI::App& app)
    : command_(app.add_subcommand("doctor", "Say why this host and another cannot talk, or that they can")) {
  command_->add_option("host", host_, "Name, IP address or GID of the other one; without it, this one alone");
  command_->add_flag("--json", json_, "Print JSON");
  command_->add_flag("--listen", listen_, "Have the port open until interrupted, for the other host's doctor")
      ->excludes("host", "--json");
}

int Command::run() const { return listen_ ? listen() : doctor(host_, json_); }

}  // namespace verbatim::doctor
