// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace verbatim::engine {

/// Takes a key out of its AES key wrap (RFC 3394, NIST SP 800-38F KW): 8 bytes shorter, or nothing when it
/// was wrapped with another key or damaged. `kek` has 16, 24 or 32 bytes.
std::optional<std::vector<uint8_t>> unwrap_key(std::span<const uint8_t> kek,
                                               std::span<const uint8_t> wrapped);

}  // namespace verbatim::engine
