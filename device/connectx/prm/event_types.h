// SPDX-License-Identifier: MIT
#pragma once

#include "abi/prm/events.h"

namespace verbatim::prm {

/// Events that happen to objects: programs may subscribe to them.
inline constexpr Event kObjectEvents[] = {
    Event::kCompletionEvents,
    Event::kPathMigratedSucceeded,
    Event::kCommunicationEstablished,
    Event::kSendQueueDrained,
    Event::kLastWqeReached,
    Event::kSrqLimit,
    Event::kCqError,
    Event::kLocalWqCatastrophicError,
    Event::kPathMigrationFailed,
    Event::kInvalidRequestLocalWqError,
    Event::kLocalAccessViolationWqError,
    Event::kLocalSrqCatastrophicError,
    Event::kDctAllConnectionsClosed,
    Event::kDctAccessKeyViolation,
};

/// Events that happen to the device itself.
inline constexpr Event kDeviceEvents[] = {Event::kPortStateChange};

}  // namespace verbatim::prm
