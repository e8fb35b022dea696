// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace verbatim::doctor {

/// Says why this host and another cannot talk, or that they can. `host`: name, address or GID; empty: this
/// host alone. `patience_ns`: for an answer. 0: they can, 1: they cannot.
int doctor(const std::string& host, bool json, uint64_t patience_ns);

/// Has UDP port 4791 open until interrupted, so that the doctor of another host has somebody to ask.
int listen();

}  // namespace verbatim::doctor
