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

}  // namespace verbatim::engine
