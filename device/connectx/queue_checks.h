// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cerrno>
#include <string>

#include "device/hw/hca.h"

namespace verbatim::connectx {

/// EINVAL: the memory of the queue does not hold its entries.
inline Outcome check_queue(const hw::QueueMemory& memory, const char* which) {
  if (!memory.base || !std::has_single_bit(memory.entries) || !std::has_single_bit(memory.stride) ||
      memory.bytes < static_cast<size_t>(memory.entries) * memory.stride)
    return Error{EINVAL, std::string("the ") + which + " queue's memory does not fit its entries"};
  return Done{};
}

/// What the host side holds of an object.
template <class Face, class Object>
Expected<Face*> face_of(const Expected<Object*>& made) {
  if (!made) return made.error();
  return static_cast<Face*>(*made);
}

}  // namespace verbatim::connectx
