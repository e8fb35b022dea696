// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim::roce {

/// Which check a packet or message failed.
enum class Refusal : uint8_t {
  kNone,
  kTooShort,
  kUnknownOpcode,
  kTransportVersion,
  kShorterThanHeaders,
  kNotWholeWords,
  kPadExceedsPayload,
  kPadInMiddle,
  kPayloadForbidden,
  kPayloadSize,
  kTooLong,
  kWrongIcrc,
  kIpVersion,
  kIpOptions,
  kIpLength,
  kIpChecksum,
  kFragment,
  kNotUdp,
  kUdpLength,
  kMadVersion,
  kMadClass,
  kMadClassVersion,
  kMadMethod,
  kMadAttribute,
  kCmServiceVersion,
  kCmServiceAddress,
};

/// The check in words, a clause without full stop; a string that lives forever.
const char* words(Refusal refusal);

/// What a parser makes of bytes: a value, or the check that they failed. Expected without a string: refusing
/// a packet that anybody may have sent costs no allocation.
template <class T>
class [[nodiscard]] Parsed {
 public:
  Parsed(const T& value) : value_(value) {}
  Parsed(Refusal refusal) : refusal_(refusal) {}

  bool ok() const { return refusal_ == Refusal::kNone; }
  explicit operator bool() const { return ok(); }
  Refusal refusal() const { return refusal_; }
  const char* reason() const { return words(refusal_); }
  T& value() { return value_; }
  const T& value() const { return value_; }
  T& operator*() { return value_; }
  const T& operator*() const { return value_; }
  T* operator->() { return &value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_{};
  Refusal refusal_ = Refusal::kNone;
};

}  // namespace verbatim::roce
