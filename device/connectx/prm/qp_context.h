// SPDX-License-Identifier: MIT
#pragma once

// Queue pair contexts, as the attributes that the device works with. On an Ethernet port, whose paths are
// always global.

#include <cstdint>

#include "abi/prm/queue_pairs.h"
#include "base/expected.h"
#include "device/connectx/prm/view.h"
#include "device/hw/hca.h"

namespace verbatim::prm {

/// Fields of a context that a transition changes only where opt_param_mask names them. The table has two of
/// these.
enum QpOptional : uint32_t {
  kOptRemoteRead = 1 << 1,
  kOptRemoteAtomic = 1 << 2,
  kOptRemoteWrite = 1 << 3,
  kOptPkeyIndex = 1 << 4,
  kOptQkey = 1 << 5,
  kOptRnrTimeout = 1 << 6,
  kOptPrimaryPath = 1 << 7,
  kOptInitiatorDepth = 1 << 8,
  kOptResponderDepth = 1 << 9,
  kOptMigration = 1 << 10,
  kOptRetryCount = 1 << 12,
  kOptRnrRetry = 1 << 13,
  kOptAckTimeout = 1 << 14,
  kOptLagPort = 1 << 15,
  kOptPort = 1 << 16,
  kOptCounterSet = 1 << 25,
};

/// What a transition asks of the device.
struct Transition {
  hw::QpAttributes attributes;
  uint32_t mask = 0;  ///< engine::QpMask
};

/// Takes from a context what the transition of that opcode demands and what opt_param_mask adds to it. Rights
/// that are not named stay as they are now. EINVAL if the context holds a value that no attribute has, or the
/// opcode is no transition; whether the queue pair may make it is for the device to say.
Expected<Transition> decode_transition(uint16_t opcode, hw::QpType type, View<Qpc> context,
                                       uint32_t opt_param_mask, const hw::QpAttributes& now, bool infiniband);

/// Writes the attributes into a context that is zero so far.
void encode_attributes(hw::QpType type, const hw::QpAttributes& attributes, bool infiniband,
                       Writer<Qpc> context);

}  // namespace verbatim::prm
