// SPDX-License-Identifier: MIT
#include "device/connectx/crypto_options.h"

#include <cerrno>
#include <charconv>
#include <fstream>
#include <numeric>
#include <sstream>

namespace verbatim::connectx {

namespace {

constexpr uint32_t kNumberMax = 0xffffff;

/// The bytes of a hexadecimal text, none if it is not one.
CryptoOptions::Secret from_hex(const std::string& text) {
  CryptoOptions::Secret bytes;
  if (text.size() % 2 != 0) return {};
  for (size_t at = 0; at < text.size(); at += 2) {
    uint8_t byte = 0;
    const char* end = text.data() + at + 2;
    const auto read = std::from_chars(text.data() + at, end, byte, 16);
    if (read.ec != std::errc{} || read.ptr != end) return {};
    bytes.push_back(byte);
  }
  return bytes;
}

/// What is wrong with a line, or nothing.
std::string take_line(const std::string& line, CryptoOptions& options) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::string kind, hex, more;
  if (!(words >> kind)) return "";
  uint32_t number = 0;
  if (!(words >> number >> hex) || words >> more) return "it is not KIND NUMBER HEX";
  if (number > kNumberMax) return "the number has more than 24 bits";
  CryptoOptions::Secret secret = from_hex(hex);
  if (kind == "import_kek") {
    if (secret.size() != 16 && secret.size() != 32) return "an import KEK has 16 or 32 bytes";
    options.import_keks[number] = std::move(secret);
  } else if (kind == "credential") {
    if (secret.size() != CryptoOptions::kCredentialBytes) return "a credential has 40 bytes";
    options.credentials[number] = std::move(secret);
  } else {
    return "the kinds are: import_kek, credential";
  }
  return "";
}

}  // namespace

CryptoOptions CryptoOptions::with_known_secrets() {
  CryptoOptions options;
  options.wrapped = true;
  Secret kek(16), credential(kCredentialBytes);
  std::iota(kek.begin(), kek.end(), uint8_t{0});
  std::iota(credential.begin(), credential.end(), uint8_t{64});
  options.import_keks[0] = kek;
  options.credentials[0] = credential;
  return options;
}

Expected<CryptoOptions> parse_crypto_options(const std::string& text) {
  const std::string prefix = "wrapped:";
  if (text.empty() || text == "plain") return CryptoOptions{};
  if (text == "wrapped") return CryptoOptions::with_known_secrets();
  if (text.rfind(prefix, 0) != 0)
    return Error{EINVAL, "VERBATIM_CRYPTO is plain, wrapped or wrapped:FILE, not '" + text + "'"};
  const std::string name = text.substr(prefix.size());
  std::ifstream file(name);
  if (!file) return Error{EINVAL, "VERBATIM_CRYPTO: the file " + name + " cannot be read"};
  CryptoOptions options;
  options.wrapped = true;
  uint32_t count = 0;
  for (std::string line; std::getline(file, line);) {
    count++;
    if (const std::string why = take_line(line, options); !why.empty())
      return Error{EINVAL, name + ", line " + std::to_string(count) + ": " + why};
  }
  return options;
}

}  // namespace verbatim::connectx
