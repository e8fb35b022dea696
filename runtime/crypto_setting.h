// SPDX-License-Identifier: MIT
#pragma once

#include "base/expected.h"
#include "device/connectx/crypto_options.h"

namespace verbatim::runtime {

/// What VERBATIM_CRYPTO asks for, or what is wrong with it. Thread safe while nobody changes the environment.
Expected<connectx::CryptoOptions> crypto_setting();

}  // namespace verbatim::runtime
