// SPDX-License-Identifier: MIT
// The state as a polynomial: a register of 16 bytes stands for everything before them, reduced no further
// than needed. It is folded over the next bytes, which multiplies its halves by powers of x that are known,
// and in the end reduced to 32 bits. (Gopal et al., "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction".)
//
// Bits are reflected throughout, and a product of reflected numbers is off by one: constants are shifted
// once.
#ifdef __x86_64__

#include <immintrin.h>

#include <cstring>

#include "base/fault_copy.h"
#include "wire/format/crc32_tables.h"

#define VERBATIM_CLMUL __attribute__((target("pclmul,sse4.1,ssse3")))
#define VERBATIM_DOUBLE_CLMUL __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.1,ssse3")))
#define VERBATIM_WIDE_CLMUL \
  __attribute__((target("avx512f,avx512vl,avx512bw,vpclmulqdq,pclmul,sse4.1,ssse3")))

namespace verbatim::roce::crc32 {

namespace {

constexpr long long constant(unsigned power) {
  return static_cast<long long>(static_cast<uint64_t>(power_of_x(power)) << 1);
}

/// What moves the two halves of 128 bits forward by so many.
template <unsigned kBits>
struct Fold {
  static constexpr long long kFirst = constant(kBits + 32), kSecond = constant(kBits - 32);
};

VERBATIM_CLMUL inline __m128i load(const uint8_t* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

template <unsigned kBits>
VERBATIM_CLMUL inline __m128i fold(__m128i x) {
  const __m128i k = _mm_set_epi64x(Fold<kBits>::kSecond, Fold<kBits>::kFirst);
  return _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11));
}

// Loaded from kShuffle + i: bytes move up by 16 - i, or down by i - 16; others become 0.
alignas(16) constexpr uint8_t kShuffle[48] = {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
                                              128, 128, 128, 128, 0,   1,   2,   3,   4,   5,   6,   7,
                                              8,   9,   10,  11,  12,  13,  14,  15,  128, 128, 128, 128,
                                              128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128};

/// Over the last `count` bytes, 1 to 15, which end a buffer of at least 16.
VERBATIM_CLMUL inline __m128i fold_tail(__m128i x, const uint8_t* bytes, size_t count) {
  const __m128i up = load(kShuffle + count), down = load(kShuffle + 16 + count);
  const __m128i tail = _mm_andnot_si128(_mm_cmpgt_epi8(_mm_setzero_si128(), up), load(bytes + count - 16));
  const __m128i near = _mm_or_si128(_mm_shuffle_epi8(x, down), tail);
  return _mm_xor_si128(fold<128>(_mm_shuffle_epi8(x, up)), near);
}

VERBATIM_CLMUL inline uint32_t reduce(__m128i x) {
  const __m128i k = _mm_set_epi64x(Fold<128>::kSecond, Fold<128>::kFirst);
  const __m128i low32 = _mm_set_epi32(0, 0, 0, -1);
  // 128 bits and 32 zeroes behind them: to 96, then 64 bits.
  x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, k, 0x10));
  x = _mm_xor_si128(_mm_srli_si128(x, 4),
                    _mm_clmulepi64_si128(_mm_and_si128(x, low32), _mm_set_epi64x(0, constant(64)), 0x00));
  // Barrett: the quotient by the polynomial from x^64 / polynomial, then the remainder.
  constexpr long long kQuotient = 0x1f7011641, kDivisor = 0x1db710641;
  const __m128i barrett = _mm_set_epi64x(kQuotient, kDivisor);
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(x, low32), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low32), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(x, quotient), 1));
}

/// The rest of a buffer, of which 16 bytes or more are in x already.
VERBATIM_CLMUL inline uint32_t finish(__m128i x, const uint8_t* bytes, size_t count) {
  for (; count >= 16; bytes += 16, count -= 16) x = _mm_xor_si128(fold<128>(x), load(bytes));
  if (count != 0) x = fold_tail(x, bytes, count);
  return reduce(x);
}

VERBATIM_DOUBLE_CLMUL inline __m256i load_double(const uint8_t* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

/// fold(x) ^ next
template <unsigned kBits>
VERBATIM_DOUBLE_CLMUL inline __m256i fold_onto(__m256i x, __m256i next) {
  const __m256i k = _mm256_broadcastsi128_si256(_mm_set_epi64x(Fold<kBits>::kSecond, Fold<kBits>::kFirst));
  const __m256i products =
      _mm256_xor_si256(_mm256_clmulepi64_epi128(x, k, 0x00), _mm256_clmulepi64_epi128(x, k, 0x11));
  return _mm256_xor_si256(products, next);
}

/// From registers that follow each other.
VERBATIM_DOUBLE_CLMUL inline __m256i join(__m256i x, __m256i y, __m256i z, __m256i w) {
  return fold_onto<256>(fold_onto<256>(fold_onto<256>(x, y), z), w);
}

/// The rest of a buffer, of which 32 bytes or more are in x already.
VERBATIM_DOUBLE_CLMUL inline uint32_t finish_double(__m256i x, const uint8_t* bytes, size_t count) {
  for (; count >= 32; bytes += 32, count -= 32) x = fold_onto<256>(x, load_double(bytes));
  return finish(_mm_xor_si128(fold<128>(_mm256_castsi256_si128(x)), _mm256_extracti128_si256(x, 1)), bytes,
                count);
}

VERBATIM_WIDE_CLMUL inline __m512i load_wide(const uint8_t* bytes) { return _mm512_loadu_si512(bytes); }

// The masked forms of intrinsics, all bits set, are free of GCC 12's warnings about its own headers.

/// fold(x) ^ next
template <unsigned kBits>
VERBATIM_WIDE_CLMUL inline __m512i fold_onto(__m512i x, __m512i next) {
  const __m512i k =
      _mm512_maskz_broadcast_i32x4(0xffff, _mm_set_epi64x(Fold<kBits>::kSecond, Fold<kBits>::kFirst));
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, k, 0x00), _mm512_clmulepi64_epi128(x, k, 0x11),
                                   next, 0x96);
}

template <int kQuarter>
VERBATIM_WIDE_CLMUL inline __m128i quarter(__m512i x) {
  return _mm512_maskz_extracti32x4_epi32(0xf, x, kQuarter);
}

/// From registers that follow each other.
VERBATIM_WIDE_CLMUL inline __m512i join(__m512i x, __m512i y, __m512i z, __m512i w) {
  return fold_onto<512>(fold_onto<512>(fold_onto<512>(x, y), z), w);
}

/// The rest of a buffer, of which 64 bytes or more are in x already.
VERBATIM_WIDE_CLMUL inline uint32_t finish_wide(__m512i x, const uint8_t* bytes, size_t count) {
  for (; count >= 64; bytes += 64, count -= 64) x = fold_onto<512>(x, load_wide(bytes));
  // Each quarter over the ones behind it.
  const __m128i first = _mm_xor_si128(fold<384>(quarter<0>(x)), fold<256>(quarter<1>(x)));
  const __m128i second = _mm_xor_si128(fold<128>(quarter<2>(x)), quarter<3>(x));
  return finish(_mm_xor_si128(first, second), bytes, count);
}

/// Of a copy by `Fold`, which moves sums on over a block.
template <class Fold>
FoldedSums sums_from(uint32_t state) {
  FoldedSums sums;
  sums.start = state;
  for (size_t i = 0; i < sizeof sums.factors; i += 16) {
    std::memcpy(sums.factors + i, &Fold::kFirst, 8);
    std::memcpy(sums.factors + i + 8, &Fold::kSecond, 8);
  }
  return sums;
}

}  // namespace

bool has_clmul() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1") &&
         __builtin_cpu_supports("ssse3");
}

bool has_double_clmul() {
  return has_clmul() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
}

bool has_wide_clmul() {
  return has_clmul() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("vpclmulqdq");
}

VERBATIM_CLMUL uint32_t update_by_clmul(uint32_t state, const uint8_t* bytes, size_t count) {
  if (count < 16) return update_by_table(state, bytes, count);
  __m128i x = _mm_xor_si128(load(bytes), _mm_cvtsi32_si128(static_cast<int>(state)));
  bytes += 16, count -= 16;
  if (count >= 112) {
    __m128i y = load(bytes), z = load(bytes + 16), w = load(bytes + 32);
    for (bytes += 48, count -= 48; count >= 64; bytes += 64, count -= 64) {
      x = _mm_xor_si128(fold<512>(x), load(bytes));
      y = _mm_xor_si128(fold<512>(y), load(bytes + 16));
      z = _mm_xor_si128(fold<512>(z), load(bytes + 32));
      w = _mm_xor_si128(fold<512>(w), load(bytes + 48));
    }
    y = _mm_xor_si128(fold<128>(x), y);
    z = _mm_xor_si128(fold<128>(y), z);
    x = _mm_xor_si128(fold<128>(z), w);
  }
  return finish(x, bytes, count);
}

VERBATIM_DOUBLE_CLMUL uint32_t update_by_double_clmul(uint32_t state, const uint8_t* bytes, size_t count) {
  if (count < 64) return update_by_clmul(state, bytes, count);
  const __m256i start = _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m256i x = _mm256_xor_si256(load_double(bytes), start);
  bytes += 32, count -= 32;
  if (count >= 224) {
    __m256i y = load_double(bytes), z = load_double(bytes + 32), w = load_double(bytes + 64);
    for (bytes += 96, count -= 96; count >= 128; bytes += 128, count -= 128) {
      x = fold_onto<1024>(x, load_double(bytes));
      y = fold_onto<1024>(y, load_double(bytes + 32));
      z = fold_onto<1024>(z, load_double(bytes + 64));
      w = fold_onto<1024>(w, load_double(bytes + 96));
    }
    x = join(x, y, z, w);
  }
  return finish_double(x, bytes, count);
}

VERBATIM_DOUBLE_CLMUL bool copy_by_double_clmul(uint32_t& state, uint8_t* to, const uint8_t* from,
                                                size_t count) {
  constexpr size_t kBlock = 128;
  FoldedSums sums = sums_from<Fold<kBlock * 8>>(state);
  const size_t folded = count / kBlock * kBlock, rest = count - folded;
  if (!fault_copy_folding_double(to, from, folded / kBlock, sums)) return false;
  if (rest > 0 && !fault_copy(to + folded, from + folded, rest)) return false;
  const __m256i x = join(load_double(sums.sum[0]), load_double(sums.sum[1]), load_double(sums.sum[2]),
                         load_double(sums.sum[3]));
  state = finish_double(x, to + folded, rest);
  return true;
}

VERBATIM_WIDE_CLMUL uint32_t update_by_wide_clmul(uint32_t state, const uint8_t* bytes, size_t count) {
  if (count < 128) return update_by_clmul(state, bytes, count);
  const __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m512i x = _mm512_xor_si512(load_wide(bytes), start);
  bytes += 64, count -= 64;
  if (count >= 448) {
    __m512i y = load_wide(bytes), z = load_wide(bytes + 64), w = load_wide(bytes + 128);
    for (bytes += 192, count -= 192; count >= 256; bytes += 256, count -= 256) {
      x = fold_onto<2048>(x, load_wide(bytes));
      y = fold_onto<2048>(y, load_wide(bytes + 64));
      z = fold_onto<2048>(z, load_wide(bytes + 128));
      w = fold_onto<2048>(w, load_wide(bytes + 192));
    }
    x = join(x, y, z, w);
  }
  return finish_wide(x, bytes, count);
}

VERBATIM_WIDE_CLMUL bool copy_by_wide_clmul(uint32_t& state, uint8_t* to, const uint8_t* from, size_t count) {
  constexpr size_t kBlock = 256;
  FoldedSums sums = sums_from<Fold<kBlock * 8>>(state);
  const size_t folded = count / kBlock * kBlock, rest = count - folded;
  if (!fault_copy_folding_wide(to, from, folded / kBlock, sums)) return false;
  if (rest > 0 && !fault_copy(to + folded, from + folded, rest)) return false;
  const __m512i x =
      join(load_wide(sums.sum[0]), load_wide(sums.sum[1]), load_wide(sums.sum[2]), load_wide(sums.sum[3]));
  state = finish_wide(x, to + folded, rest);
  return true;
}

}  // namespace verbatim::roce::crc32

#endif
