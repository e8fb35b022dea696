// SPDX-License-Identifier: MIT
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace verbatim::tools {

/// The command line of `verbatim inject`.
class InjectOptions {
 public:
  explicit InjectOptions(CLI::App& app);
  bool parsed() const { return command_->parsed(); }
  int run() const;

 private:
  CLI::App *command_, *add_, *event_, *list_, *remove_;
  std::map<std::string, std::string> items_;  ///< of a rule
  std::vector<uint32_t> numbers_;
  bool json_ = false;
  std::string event_name_, device_, value_ = "0";
};

}  // namespace verbatim::tools
