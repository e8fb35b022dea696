// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbatim::tools {

/// What `verbatim COMMAND` does; each returns the exit status: 0 done, 1 failed (the reason is on standard
/// error).

/// Runs a program on this build's libraries: does not return when it could be started.
int run(const std::vector<std::string>& command);
int devices(bool json);
int status(bool json);
/// `follow`: goes on with what comes until interrupted.
int explain(bool json, bool follow);
/// Adds rules that damage packets, as text (wire/link/tap/rule.h), and prints them.
int inject_add(const std::string& rules);
int inject_list(bool json);
/// By their numbers, one of which may be kAllRules.
int inject_remove(const std::vector<uint32_t>& numbers);
inline constexpr uint32_t kAllRules = 0;
/// Lets something happen to a device (agent/port_service.h). `device`: its name, or empty for the first one.
int inject_event(const std::string& event, const std::string& device, uint32_t value);
/// Prints a completion script for bash, zsh or fish.
int completion(const std::string& shell);

}  // namespace verbatim::tools
