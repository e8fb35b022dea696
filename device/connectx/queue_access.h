// SPDX-License-Identifier: MIT
#pragma once

// Reaching queue memory: the host side's own directly, a program's (hw::QueueMemory::revocable) through
// copies that survive its absence.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/fault_copy.h"
#include "device/connectx/formats.h"

namespace verbatim::connectx {

/// Reads a word of a doorbell record. False: it is not there any more.
inline bool read_record(const uint32_t* word, bool revocable, uint32_t& value) {
  uint32_t raw;
  if (!revocable) [[likely]] {
    raw = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  } else {
    if (!fault_copy(&raw, word, sizeof raw)) return false;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
  }
  value = Be32::from_raw(raw);
  return true;
}

/// Copies out of a queue. False: it is not there any more, and `to` holds zeros.
inline bool read_queue(void* to, const std::byte* from, size_t bytes, bool revocable) {
  if (!revocable) [[likely]] {
    std::memcpy(to, from, bytes);
    return true;
  }
  if (fault_copy(to, from, bytes)) return true;
  std::memset(to, 0, bytes);
  return false;
}

}  // namespace verbatim::connectx
