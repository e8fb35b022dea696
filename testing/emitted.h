// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/hex.h"
#include "wire/format/layout.h"

namespace verbatim::testing {

constexpr uint8_t kDirt = 0xa5;

/// The record's bytes in a buffer that was full of dirt; expects none written behind it, and nothing at all
/// where the buffer is too short.
template <class T>
std::string emitted(const T& value) {
  constexpr size_t kBytes = T::Layout::kBytes;
  std::vector<uint8_t> buffer(kBytes + 8, kDirt);
  EXPECT_EQ(T::Layout::emit(value, std::span(buffer)), kBytes);
  const auto clean = [](uint8_t byte) { return byte == kDirt; };
  EXPECT_TRUE(std::all_of(buffer.begin() + kBytes, buffer.end(), clean));
  std::vector<uint8_t> shorter(kBytes - 1, kDirt);
  EXPECT_EQ(T::Layout::emit(value, std::span(shorter)), 0u);
  EXPECT_TRUE(std::all_of(shorter.begin(), shorter.end(), clean));
  return to_hex(std::span(buffer).first(kBytes));
}

/// Emits as these bytes, comes back from them, also when reserved bits are set, and from no fewer.
template <class T>
void expect_on_wire(const T& value, std::string_view hex) {
  std::vector<uint8_t> bytes = from_hex(hex);
  EXPECT_EQ(emitted(value), to_hex(bytes));
  ASSERT_EQ(bytes.size(), T::Layout::kBytes);
  EXPECT_TRUE(T::Layout::template parse<T>(bytes).value() == value);
  const auto covered = T::Layout::covered();
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<uint8_t>(bytes[i] | ~covered[i]);
  EXPECT_TRUE(T::Layout::template parse<T>(bytes).value() == value);
  const auto shorter = T::Layout::template parse<T>(std::span(bytes).first(bytes.size() - 1));
  EXPECT_EQ(shorter.refusal(), roce::Refusal::kTooShort);
}

}  // namespace verbatim::testing
