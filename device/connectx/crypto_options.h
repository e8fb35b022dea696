// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/expected.h"

namespace verbatim::connectx {

/// How keys get into the device's crypto engine, and what its officer has put there.
struct CryptoOptions {
  using Secret = std::vector<uint8_t>;
  static constexpr size_t kCredentialBytes = 40;

  bool wrapped = false;  ///< keys come wrapped with an import KEK, after a login; else plain
  std::map<uint32_t, Secret> import_keks;  ///< by number; 16 or 32 bytes each
  std::map<uint32_t, Secret> credentials;  ///< by number; kCredentialBytes each

  /// The device of VERBATIM_CRYPTO=wrapped: import KEK 0 is the bytes 0, 1, ... 15, credential 0 the bytes
  /// 64, 65, ... 103.
  static CryptoOptions with_known_secrets();
};

/// Understands VERBATIM_CRYPTO: nothing or `plain`; `wrapped`; `wrapped:FILE` with lines `import_kek NUMBER
/// HEX` and `credential NUMBER HEX` in the file, and comments after #. The error names what is wrong.
Expected<CryptoOptions> parse_crypto_options(const std::string& text);

}  // namespace verbatim::connectx
