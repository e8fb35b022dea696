// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::testing {

/// The bytes of pairs of hexadecimal digits; whatever is not such a digit may stand between them.
inline std::vector<uint8_t> from_hex(std::string_view text) {
  std::vector<uint8_t> bytes;
  unsigned digits = 0, value = 0;
  for (const char c : text) {
    const auto digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos) continue;
    value = value << 4 | static_cast<unsigned>(digit);
    if (++digits % 2 == 0) bytes.push_back(static_cast<uint8_t>(value));
  }
  return bytes;
}

/// "04f0 8001 c012": four digits a group.
inline std::string to_hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i++) {
    if (i != 0 && i % 2 == 0) text += ' ';
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

}  // namespace verbatim::testing
