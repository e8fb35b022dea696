// SPDX-License-Identifier: MIT
#pragma once

#include "base/random.h"

namespace verbatim::fuzz {

using verbatim::Random;

}  // namespace verbatim::fuzz
