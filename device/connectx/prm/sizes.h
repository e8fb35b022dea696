// SPDX-License-Identifier: MIT
#pragma once

// Sizes of queues, which contexts give as powers of two.

#include <bit>
#include <cstdint>

namespace verbatim::prm {

/// Of a power of two; 0 for 0.
constexpr uint32_t log2_of(uint32_t power) {
  return power ? static_cast<uint32_t>(std::countr_zero(power)) : 0;
}

// The largest queues.
constexpr uint32_t kLogEventQueueMax = 20;
constexpr uint32_t kLogCompletionQueueMax = 22;
constexpr uint32_t kLogSharedReceiveMax = 15;
constexpr uint32_t kLogReceiveStrideMax = 12;  ///< bytes of an entry
constexpr uint32_t kReceiveUnit = 16;          ///< bytes of the smallest

/// What QUERY_HCA_CAP says of objects that are not in hw::Limits.
constexpr uint32_t kLogEventQueuesMax = 6;
constexpr uint32_t kLogSharedReceivesMax = 16;

}  // namespace verbatim::prm
