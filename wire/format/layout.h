// SPDX-License-Identifier: MIT
#pragma once

// How a value lies in bytes, as a type. A record is a plain struct of numbers; its Layout says for each
// member at which bit it begins and how many it has, bit 0 being the most significant one of the first byte,
// as the InfiniBand specification draws its headers:
//
//   struct Udp {
//     uint16_t source_port, ...;
//     using Layout = roce::Layout<8, At<&Udp::source_port, 0, 16>, ...>;
//
// All offsets are known to the compiler: reading is loads and shifts, and writing composes each word of 32
// bits once from all that lies in it, so that reserved bits become 0 whatever was in the buffer.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "wire/format/parsed.h"

namespace verbatim::roce {

inline uint32_t load_word(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return __builtin_bswap32(word);
}

inline void store_word(uint8_t* bytes, uint32_t word) {
  word = __builtin_bswap32(word);
  std::memcpy(bytes, &word, sizeof word);
}

/// The number of a bit within a byte, for layouts that are told in bytes.
constexpr unsigned in_byte(unsigned byte, unsigned bit = 0) { return byte * 8 + bit; }

namespace layout_detail {

template <class Member>
struct MemberOf;
template <class Class, class Type>
struct MemberOf<Type Class::*> {
  using type = Type;
};
template <auto kMember>
using TypeOf = typename MemberOf<decltype(kMember)>::type;

/// Which part of a word and of a number of kWidth bits at kOffset coincide.
template <unsigned kOffset, unsigned kWidth, unsigned kWord>
struct Overlap {
  static constexpr unsigned kBegin = kOffset > kWord * 32 ? kOffset : kWord * 32;
  static constexpr unsigned kEnd = kOffset + kWidth < kWord * 32 + 32 ? kOffset + kWidth : kWord * 32 + 32;
  static constexpr bool kAny = kBegin < kEnd;
  static constexpr unsigned kBits = kAny ? kEnd - kBegin : 0;
  static constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  static constexpr unsigned kWordShift = kAny ? kWord * 32 + 32 - kEnd : 0;
  static constexpr unsigned kNumberShift = kAny ? kOffset + kWidth - kEnd : 0;
};

}  // namespace layout_detail

constexpr unsigned kUndivided = ~0u;

/// A number of kWidth bits at bit kOffset, in a member of any integer, enumeration or bool. Of a number that
/// lies in several places, these are the bits from kFrom on.
template <auto kMember, unsigned kOffset, unsigned kWidth, unsigned kFrom = kUndivided>
struct At {
  using Type = layout_detail::TypeOf<kMember>;
  static constexpr unsigned kShift = kFrom == kUndivided ? 0 : kFrom;
  static constexpr unsigned kFirst = kOffset, kBits = kWidth;
  static_assert(kWidth >= 1 && kWidth <= 64 &&
                kWidth + kShift <= (std::is_same_v<Type, bool> ? 1 : sizeof(Type) * 8));

  template <class T>
  static void read(const uint8_t* bytes, T& to) {
    constexpr unsigned kLast = (kOffset + kWidth - 1) / 32;
    uint64_t number = part<kOffset / 32>(bytes);
    if constexpr (kLast > kOffset / 32) number |= part<kOffset / 32 + 1>(bytes);
    if constexpr (kLast > kOffset / 32 + 1) number |= part<kOffset / 32 + 2>(bytes);
    if constexpr (kFrom != kUndivided) {
      const uint64_t others = static_cast<uint64_t>(to.*kMember) & ~(((uint64_t{1} << kWidth) - 1) << kShift);
      number = others | number << kShift;
    }
    to.*kMember = static_cast<Type>(number);
  }
  template <unsigned kWord, class T>
  static uint32_t word(const T& from) {
    using Part = layout_detail::Overlap<kOffset, kWidth, kWord>;
    if constexpr (!Part::kAny) return 0;
    const uint64_t number = static_cast<uint64_t>(from.*kMember) >> kShift;
    return static_cast<uint32_t>((number >> Part::kNumberShift & Part::kMask) << Part::kWordShift);
  }
  template <class T>
  static void write_bytes(uint8_t*, const T&) {}

 private:
  template <unsigned kWord>
  static uint64_t part(const uint8_t* bytes) {
    using Part = layout_detail::Overlap<kOffset, kWidth, kWord>;
    return (load_word(bytes + kWord * 4) >> Part::kWordShift & Part::kMask) << Part::kNumberShift;
  }
};

/// A member whose memory is on the wire as it is, from byte kByte on: an array of bytes, a Gid.
template <auto kMember, unsigned kByte>
struct Bytes {
  using Type = layout_detail::TypeOf<kMember>;
  static constexpr unsigned kFirst = kByte * 8, kBits = sizeof(Type) * 8;
  static_assert(std::is_trivially_copyable_v<Type>);

  template <class T>
  static void read(const uint8_t* bytes, T& to) {
    std::memcpy(&(to.*kMember), bytes + kByte, sizeof(Type));
  }
  template <unsigned kWord, class T>
  static uint32_t word(const T&) {
    return 0;
  }
  template <class T>
  static void write_bytes(uint8_t* bytes, const T& from) {
    std::memcpy(bytes + kByte, &(from.*kMember), sizeof(Type));
  }
};

/// A record within the record, at byte kByte, in a layout of its own.
template <auto kMember, unsigned kByte, class InnerLayout>
struct Inner {
  static constexpr unsigned kFirst = kByte * 8, kBits = InnerLayout::kBytes * 8;
  static_assert(kByte % 4 == 0);

  template <class T>
  static void read(const uint8_t* bytes, T& to) {
    InnerLayout::read(bytes + kByte, to.*kMember);
  }
  template <unsigned kWord, class T>
  static uint32_t word(const T& from) {
    if constexpr (kWord * 4 < kByte || kWord * 4 >= kByte + InnerLayout::kBytes)
      return 0;
    else
      return InnerLayout::template word<kWord - kByte / 4>(from.*kMember);
  }
  template <class T>
  static void write_bytes(uint8_t* bytes, const T& from) {
    InnerLayout::write_bytes(bytes + kByte, from.*kMember);
  }
};

/// kSize bytes with these fields; what no field covers is reserved.
template <size_t kSize, class... Fields>
struct Layout {
  static constexpr size_t kBytes = kSize;
  static_assert(kSize % 4 == 0);

  /// 1 for each bit that a field covers. Records within the record count as a whole.
  static constexpr std::array<uint8_t, kSize> covered() {
    std::array<uint8_t, kSize> bits{};
    (cover(bits, Fields::kFirst, Fields::kBits), ...);
    return bits;
  }

  template <class T>
  static void read(const uint8_t* bytes, T& to) {
    (Fields::read(bytes, to), ...);
  }
  template <unsigned kWord, class T>
  static uint32_t word(const T& from) {
    return (Fields::template word<kWord>(from) | ...);
  }
  template <class T>
  static void write_bytes(uint8_t* bytes, const T& from) {
    (Fields::write_bytes(bytes, from), ...);
  }

  template <class T>
  static Parsed<T> parse(std::span<const uint8_t> bytes) {
    static_assert(!overlaps(), "a bit belongs to two fields");
    if (bytes.size() < kSize) return Refusal::kTooShort;
    T value{};
    read(bytes.data(), value);
    return value;
  }
  /// The number of bytes written: all, or none where there is no room for them.
  template <class T>
  static size_t emit(const T& value, std::span<uint8_t> out) {
    if (out.size() < kSize) return 0;
    write_words(out.data(), value, std::make_index_sequence<kSize / 4>());
    write_bytes(out.data(), value);
    return kSize;
  }

 private:
  template <class T, size_t... kWords>
  static void write_words(uint8_t* bytes, const T& value, std::index_sequence<kWords...>) {
    (store_word(bytes + kWords * 4, word<kWords>(value)), ...);
  }
  static constexpr void cover(std::array<uint8_t, kSize>& bits, unsigned first, unsigned count) {
    for (unsigned bit = first; bit < first + count; bit++)
      bits[bit / 8] = static_cast<uint8_t>(bits[bit / 8] | 0x80 >> bit % 8);
  }
  static constexpr bool overlaps() {
    std::array<uint8_t, kSize> bits = covered();
    unsigned ones = 0;
    for (const uint8_t byte : bits) ones += static_cast<unsigned>(__builtin_popcount(byte));
    return ones != (Fields::kBits + ... + 0u);
  }
  static_assert(((Fields::kFirst + Fields::kBits <= kSize * 8) && ...), "a field lies beyond the end");
};

}  // namespace verbatim::roce
