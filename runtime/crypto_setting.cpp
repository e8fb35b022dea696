// SPDX-License-Identifier: MIT
#include "runtime/crypto_setting.h"

#include <cstdlib>

namespace verbatim::runtime {

Expected<connectx::CryptoOptions> crypto_setting() {
  const char* wanted = std::getenv("VERBATIM_CRYPTO");
  return connectx::parse_crypto_options(wanted ? wanted : "");
}

}  // namespace verbatim::runtime
