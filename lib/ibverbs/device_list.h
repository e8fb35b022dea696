// SPDX-License-Identifier: MIT
#pragma once

#include "lib/ibverbs/provider.h"

namespace verbatim::verbs {

/// The provider library of that name, loaded from this library's folder when it is not there yet; nullptr:
/// none.
const Provider* find_provider(const std::string& name);

/// The device of the list with that name; nullptr: there is none.
Device* find_device(const std::string& name);

/// Says on standard error why nothing works, if the user asked for reasons (VERBATIM_EXPLAIN=1).
void explain_aloud(const std::string& text);

}  // namespace verbatim::verbs
