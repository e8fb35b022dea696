// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace verbatim::doctor {

/// Who has UDP port 4791 in this network namespace, in words: "nc (process 12, user alice)"; empty: nobody.
/// Processes of other users show only to root.
std::string port_holders_in_words();

}  // namespace verbatim::doctor
