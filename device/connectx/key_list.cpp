// SPDX-License-Identifier: MIT
#include "device/connectx/key_list.h"

#include <algorithm>
#include <cstring>

#include "device/connectx/formats.h"

namespace verbatim::connectx {

namespace {

using Octowords = std::span<const std::byte>;

template <class T>
T entry_at(Octowords octowords, size_t index) {
  T value;
  std::memcpy(&value, octowords.data() + index * sizeof(T), sizeof value);
  return value;
}

const char* decode_interleaved(Octowords octowords, KeyList& list) {
  const auto head = entry_at<StrideHead>(octowords, 0);
  const size_t columns = head.entries;
  if (octowords.size() / sizeof(StrideEntry) < columns + 1)
    return "the interleaved list ends before its entries do";
  uint64_t round = 0, whole = 0;
  for (size_t i = 1; i <= columns; i++) {
    const auto column = entry_at<StrideEntry>(octowords, i);
    list.entries.push_back({column.key, column.address, column.byte_count, column.stride});
    round += column.byte_count;
  }
  if (head.byte_count != round)
    return "the bytes of a round are not the sum of the interleaved list's entries";
  if (__builtin_mul_overflow(round, uint64_t{head.rounds}, &whole))
    return "the interleaved list is longer than the address space";
  list.rounds = head.rounds;
  return nullptr;
}

}  // namespace

const char* decode_list(Octowords octowords, const engine::KeyShape& shape, KeyList& list) {
  const size_t count = octowords.size() / sizeof(ListEntry);
  list = {};
  if (count > shape.room) return "the list is longer than the key was made for";
  list.entries.reserve(count);
  if (count > 0 && shape.entry_length == 0 && entry_at<StrideHead>(octowords, 0).operation == kRepeatKey)
    return decode_interleaved(octowords, list);
  for (size_t i = 0; i < count; i++) {
    const auto entry = entry_at<ListEntry>(octowords, i);
    const uint64_t length = shape.entry_length == 0 ? uint64_t{entry.byte_count}
                            : entry.key != 0        ? shape.entry_length
                                                    : 0;
    list.entries.push_back({entry.key, entry.address, length, 0});
  }
  return nullptr;
}

const char* replace_entries(KeyList& list, const KeyList& part, uint64_t first,
                            const engine::KeyShape& shape) {
  if (first > shape.room || part.entries.size() > shape.room - first)
    return "the part of the list is not inside what the key was made for";
  if (first == 0 && (list.rounds != 1 || part.rounds != 1)) {
    list = part;
    return nullptr;
  }
  if (list.rounds != 1 || part.rounds != 1) return "interleaved lists are replaced as a whole";
  list.entries.resize(std::max<size_t>(list.entries.size(), first + part.entries.size()));
  std::copy(part.entries.begin(), part.entries.end(),
            list.entries.begin() + static_cast<std::ptrdiff_t>(first));
  return nullptr;
}

}  // namespace verbatim::connectx
