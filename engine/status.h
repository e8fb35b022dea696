// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim::engine {

/// Outcome of a work request, provider neutral; device models turn it into their own syndromes.
enum class Status : uint8_t {
  kSuccess,
  kLocalLength,
  kLocalQpOperation,
  kLocalProtection,
  kFlushed,
  kMemoryWindowBind,
  kBadResponse,
  kLocalAccess,
  kRemoteInvalidRequest,
  kRemoteAccess,
  kRemoteOperation,
  kRetryExceeded,
  kRnrRetryExceeded,
  kRemoteAborted,
};

/// In the status of a reason (engine/published.h): the rest is the errno value of a refused command.
inline constexpr uint32_t kRefusal = 1u << 31;

/// Rights of a memory key and of a queue pair; bit values are those of IBV_ACCESS_*.
enum Access : uint32_t {
  kLocalWrite = 1 << 0,
  kRemoteWrite = 1 << 1,
  kRemoteRead = 1 << 2,
  kRemoteAtomic = 1 << 3,
  kMwBind = 1 << 4,
  kZeroBased = 1 << 5,
  kOnDemand = 1 << 6,
  kHugetlb = 1 << 7,
  kFlushGlobal = 1 << 8,
  kFlushPersistent = 1 << 9,
  kRelaxedOrdering = 1 << 20,
};

/// In PublishedKey::access, beside Access: what makes a key more than a piece of memory. A peer that finds
/// one of kOwnersOnly set asks the owner instead of reaching into its memory.
inline constexpr uint32_t kNullRegion = 1u << 31;  ///< reads as zero and swallows writes
inline constexpr uint32_t kIndirect = 1u
                                      << 30;    ///< stands for ranges of other keys; `address` is a KeyLayout
inline constexpr uint32_t kFreeKey = 1u << 19;  ///< stands for nothing until a work request says so
inline constexpr uint32_t kUpdatable = 1u << 18;         ///< work requests may change it
inline constexpr uint32_t kRemoteInvalidate = 1u << 17;  ///< and a peer may free it
inline constexpr uint32_t kBound = 1u << 16;             ///< one queue pair's alone
inline constexpr uint32_t kOwnersOnly = kNullRegion | kIndirect | kFreeKey | kUpdatable | kBound;

}  // namespace verbatim::engine
