// SPDX-License-Identifier: MIT
#pragma once

// The parts of crc32.h that every processor has, and the arithmetic behind all of them.

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::roce::crc32 {

/// The polynomial, its most significant coefficient in bit 0.
constexpr uint32_t kPolynomial = 0xedb88320;

/// state * x modulo the polynomial.
constexpr uint32_t times_x(uint32_t state) { return state >> 1 ^ (state & 1 ? kPolynomial : 0); }
/// What times_x made this of. The polynomial's highest coefficients are 1, and so bit 31 tells what was
/// shifted out.
constexpr uint32_t over_x(uint32_t state) {
  return state >> 31 ? (state ^ kPolynomial) << 1 | 1 : state << 1;
}

/// x^n modulo the polynomial; x^0 is bit 31.
constexpr uint32_t power_of_x(unsigned n) {
  uint32_t power = 0x80000000;
  for (unsigned i = 0; i < n; i++) power = times_x(power);
  return power;
}

/// The product modulo the polynomial.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int bit = 31; bit >= 0; bit--) {
    product ^= a & -(b >> bit & 1);
    a = times_x(a);
  }
  return product;
}

/// Eight bytes a step.
uint32_t update_by_table(uint32_t state, const uint8_t* bytes, size_t count);

#ifdef __x86_64__
/// Whether this processor has what they need.
bool has_clmul();
bool has_double_clmul();
bool has_wide_clmul();
uint32_t update_by_clmul(uint32_t state, const uint8_t* bytes, size_t count);
uint32_t update_by_double_clmul(uint32_t state, const uint8_t* bytes, size_t count);
uint32_t update_by_wide_clmul(uint32_t state, const uint8_t* bytes, size_t count);
/// As Crc32Way::copy.
bool copy_by_double_clmul(uint32_t& state, uint8_t* to, const uint8_t* from, size_t count);
bool copy_by_wide_clmul(uint32_t& state, uint8_t* to, const uint8_t* from, size_t count);
#endif

}  // namespace verbatim::roce::crc32
