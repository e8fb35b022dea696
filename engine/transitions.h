// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "engine/qp_types.h"

namespace verbatim::engine {

/// Checks a state change of a queue pair against IBA 10.3.1 (tables 91 to 94): is the transition legal for
/// the service type, are all required attributes named and none that is not allowed. Empty: yes; else why
/// not.
std::string check_transition(QpType type, QpState from, QpState to, uint32_t mask);

/// Checks the values of the attributes that `mask` names, as far as they do not depend on the port.
std::string check_attributes(const QpAttributes& attributes, uint32_t mask);

const char* state_name(QpState state);

}  // namespace verbatim::engine
