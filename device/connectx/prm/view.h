// SPDX-License-Identifier: MIT
#pragma once

// Reading and writing mailboxes through their layouts (abi/prm). A view never leaves its mailbox: what lies
// beyond the end reads as 0 and is not written, so that a mailbox of any length can be looked at.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/prm/layout.h"

namespace verbatim::prm {

/// True if all these bits lie within the bytes.
inline bool holds(std::span<const uint8_t> box, uint64_t offset, uint64_t width) {
  const uint64_t bits = static_cast<uint64_t>(box.size()) * 8;
  return width <= bits && offset <= bits - width;
}

/// A big-endian number of 1 to 64 bits, 0 where the bytes do not hold it.
uint64_t read_bits(std::span<const uint8_t> box, uint64_t offset, unsigned width);

/// Writes the low bits of value; nothing where the bytes do not hold it all.
void write_bits(std::span<uint8_t> box, uint64_t offset, unsigned width, uint64_t value);

/// A layout in a mailbox, or at some bit of it. Cheap to copy; the mailbox must outlive it.
template <class Layout>
class View {
 public:
  explicit View(std::span<const uint8_t> box, uint64_t base = 0) : box_(box), base_(base) {}

  template <unsigned kWidth>
  Value<kWidth> operator[](Field<Layout, kWidth> field) const {
    return static_cast<Value<kWidth>>(read_bits(box_, base_ + field.offset, kWidth));
  }
  template <class Inner>
  View<Inner> operator[](Nested<Layout, Inner> nested) const {
    return View<Inner>(box_, base_ + nested.offset);
  }
  /// The field as an enum of the generated headers; any value may come.
  template <class Enum, unsigned kWidth>
  Enum as(Field<Layout, kWidth> field) const {
    return static_cast<Enum>((*this)[field]);
  }

  template <unsigned kWidth>
  Value<kWidth> at(Array<Layout, kWidth> array, size_t index) const {
    if (index >= size(array)) return {};
    return static_cast<Value<kWidth>>(read_bits(box_, base_ + array.offset + index * kWidth, kWidth));
  }
  template <class Inner>
  View<Inner> at(NestedArray<Layout, Inner> array, size_t index) const {
    if (index >= size(array)) return View<Inner>({});
    return View<Inner>(box_, base_ + array.offset + index * Inner::kBits);
  }
  /// Another layout where an array's elements are: what kind of data they hold depends on other fields.
  template <class Other, unsigned kWidth>
  View<Other> overlay(Array<Layout, kWidth> array, size_t index = 0) const {
    return View<Other>(box_, base_ + array.offset + index * Other::kBits);
  }
  /// How many elements of an array the mailbox holds.
  template <unsigned kWidth>
  size_t size(Array<Layout, kWidth> array) const {
    return elements(array.offset, array.count, kWidth);
  }
  template <class Inner>
  size_t size(NestedArray<Layout, Inner> array) const {
    return elements(array.offset, array.count, Inner::kBits);
  }

  /// The layout's bytes, as far as the mailbox goes. It must begin at a byte.
  std::span<const uint8_t> bytes() const {
    const size_t from = std::min<size_t>(base_ / 8, box_.size());
    return box_.subspan(from, std::min<size_t>(Layout::kBits / 8, box_.size() - from));
  }
  /// True if the mailbox goes as far as the layout.
  bool complete() const { return holds(box_, base_, Layout::kBits); }

 private:
  size_t elements(uint64_t offset, uint32_t count, uint64_t width) const {
    const uint64_t bits = static_cast<uint64_t>(box_.size()) * 8, start = base_ + offset;
    const uint64_t held = start < bits ? (bits - start) / width : 0;
    return count == kToTheEnd || held < count ? held : count;
  }

  std::span<const uint8_t> box_;
  uint64_t base_;
};

/// A View that also writes. Numbers are cut to the width of their field.
template <class Layout>
class Writer : public View<Layout> {
 public:
  explicit Writer(std::span<uint8_t> box, uint64_t base = 0)
      : View<Layout>(box, base), box_(box), base_(base) {}

  using View<Layout>::operator[];
  using View<Layout>::at;
  template <class Inner>
  Writer<Inner> operator[](Nested<Layout, Inner> nested) const {
    return Writer<Inner>(box_, base_ + nested.offset);
  }

  template <unsigned kWidth, class Number>
  void set(Field<Layout, kWidth> field, Number value) const {
    write_bits(box_, base_ + field.offset, kWidth, static_cast<uint64_t>(value));
  }
  template <unsigned kWidth, class Number>
  void set(Array<Layout, kWidth> array, size_t index, Number value) const {
    if (index < this->size(array))
      write_bits(box_, base_ + array.offset + index * kWidth, kWidth, static_cast<uint64_t>(value));
  }
  /// All of the layout, as bytes() of another mailbox gave it.
  void assign(std::span<const uint8_t> bytes) const {
    const size_t from = std::min<size_t>(base_ / 8, box_.size());
    std::ranges::copy(bytes.first(std::min(bytes.size(), box_.size() - from)),
                      box_.begin() + static_cast<std::ptrdiff_t>(from));
  }
  template <class Inner>
  Writer<Inner> at(NestedArray<Layout, Inner> array, size_t index) const {
    if (index >= this->size(array)) return Writer<Inner>({});
    return Writer<Inner>(box_, base_ + array.offset + index * Inner::kBits);
  }
  template <class Other, unsigned kWidth>
  Writer<Other> overlay(Array<Layout, kWidth> array, size_t index = 0) const {
    return Writer<Other>(box_, base_ + array.offset + index * Other::kBits);
  }

 private:
  std::span<uint8_t> box_;
  uint64_t base_;
};

}  // namespace verbatim::prm
