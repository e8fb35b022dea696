// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim::prm {

// How many objects of a kind the device keeps at once, and how large they may be; QUERY_HCA_CAP tells.
inline constexpr uint32_t kLogTransportDomainsMax = 16;
inline constexpr uint32_t kLogXrcdsMax = 23;
inline constexpr uint32_t kLogUserContextsMax = 14;
inline constexpr uint32_t kLogUmemsMax = 23;
inline constexpr uint32_t kLogWorkQueuesMax = 23;
inline constexpr uint32_t kLogTransportInterfacesMax = 23;
inline constexpr uint32_t kLogReceiveTablesMax = 23;
inline constexpr uint32_t kLogReceiveTableEntriesMax = 11;
/// Entries of a work queue, and bytes of one.
inline constexpr uint32_t kLogWorkEntriesMax = 15;
inline constexpr uint32_t kLogRawStrideMin = 4, kLogRawStrideMax = 13;
inline constexpr uint32_t kLogSendBlock = 6;
/// A striding receive queue: bytes of a stride, and strides of an entry.
inline constexpr uint32_t kLogStrideBytesMin = 6, kLogStrideBytesMax = 13;
inline constexpr uint32_t kLogStridesMin = 3, kLogStridesMax = 16;
inline constexpr uint32_t kLogStridedEntryMin = 5;  ///< a link and one element
/// How a context says how many strides an entry has: 512 are code 0, and what is less follows from code 10
/// on.
inline constexpr uint32_t kLogStridesFirst = 9, kStridesCodeSmall = 10;
constexpr uint32_t strides_code(uint32_t log) {
  return log >= kLogStridesFirst ? log - kLogStridesFirst : log - kLogStridesMin + kStridesCodeSmall;
}
constexpr uint32_t log_strides_of(uint32_t code) {
  return code < kStridesCodeSmall ? code + kLogStridesFirst : code - kStridesCodeSmall + kLogStridesMin;
}

}  // namespace verbatim::prm
