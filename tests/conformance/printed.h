// SPDX-License-Identifier: MIT
#pragma once

// What the `verbatim` command prints of the test itself.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace verbatim::conformance {

inline std::string printed(const char* command) {
  FILE* pipe = popen(command, "r");
  std::string text;
  char part[4096];
  while (const size_t got = std::fread(part, 1, sizeof part, pipe)) text.append(part, got);
  EXPECT_EQ(pclose(pipe), 0);
  return text;
}

/// What `verbatim status` shows of this process; null: nothing.
inline nlohmann::json shown_of_self() {
  const auto status = nlohmann::json::parse(printed(VERBATIM_TEST_TOOL " status --json"));
  for (const auto& process : status["processes"])
    if (process["pid"] == getpid()) return process;
  return nullptr;
}

}  // namespace verbatim::conformance
