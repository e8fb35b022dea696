// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "wire/link/segment.h"

namespace verbatim::wire::shm {

enum class CrossResult : uint8_t { kDone, kFault, kForbidden };

/// Moves bytes between pieces of this process and pieces of process `pid` (process_vm_readv/writev); both
/// lists have the same number of bytes. kFault: an address on either side is bad; kForbidden: the kernel does
/// not allow it at all.
CrossResult read_from(uint32_t pid, const Piece* here, uint32_t here_count, const Piece* there,
                      uint32_t there_count);
CrossResult write_to(uint32_t pid, const Piece* here, uint32_t here_count, const Piece* there,
                     uint32_t there_count);

/// Lets peers of the same user reach this process's memory where the kernel asks for consent (Yama scope 1).
void consent_to_peers();

/// False when VERBATIM_NO_CMA is set: everything goes through the rings.
bool cross_memory_wanted();

}  // namespace verbatim::wire::shm
