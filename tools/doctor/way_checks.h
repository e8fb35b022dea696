// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/doctor/host_checks.h"

namespace verbatim::doctor {

/// Looks at the way to another host: its name, the route, the source address, sizes of packets, and whether
/// it answers, which may take so long.
void check_way(Report& report, const Host& host, const std::string& name, uint64_t patience_ns);

}  // namespace verbatim::doctor
