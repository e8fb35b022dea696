// SPDX-License-Identifier: MIT
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace verbatim::doctor {

/// `doctor` on the command line.
class Command {
 public:
  /// Adds it to `app`, before which this must not go.
  explicit Command(CLI::App& app);
  bool parsed() const { return command_->parsed(); }
  int run() const;

 private:
  CLI::App* command_;
  std::string host_;
  bool json_ = false, listen_ = false;
  double patience_s_ = 4;
};

}  // namespace verbatim::doctor
