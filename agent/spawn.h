// SPDX-License-Identifier: MIT
#pragma once

#include "base/expected.h"

namespace verbatim::agent {

/// Where verbatimd is: VERBATIM_AGENT, or beside this library or program (../bin, ., ../../bin), or in
/// /usr/libexec/verbatim, or in a folder of PATH. ENOENT: the reason lists the places.
Expected<std::string> find_agent();

/// Starts it and returns when it can be asked. The program around this notices nothing: no signal when the
/// helper ends, no inherited descriptors, terminal or signal mask. Thread safe.
Outcome start_agent();

}  // namespace verbatim::agent
