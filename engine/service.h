// SPDX-License-Identifier: MIT
#pragma once

// What each service type offers.

#include <cstdint>

#include "engine/qp_types.h"
#include "engine/work.h"

namespace verbatim::engine {

/// Opcodes, a bit for each. Local ones count as sends.
uint32_t offered_by(QpType type);

/// Bytes of the longest message that is not cut into frames.
uint32_t longest_of(QpType type);

/// The opcode neither asks for a length of its own nor allows for more than its service type.
inline bool has_any_length(Opcode op) { return op <= Opcode::kRead && op != Opcode::kSegmentedSend; }

/// Why a work request cannot have `length` bytes, where `most` is the longest, or nullptr: it can.
const char* wrong_length(const SendWork& work, uint64_t length, uint64_t most);

}  // namespace verbatim::engine
