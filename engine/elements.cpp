// SPDX-License-Identifier: MIT
#include "engine/elements.h"

#include <algorithm>

#include "base/fault_copy.h"

namespace verbatim::engine {

namespace {

/// False: there is no room for another piece.
bool append(Window& window, const wire::Piece& piece) {
  if (window.count > 0) {
    wire::Piece& newest = window.pieces[window.count - 1];
    if (static_cast<char*>(newest.base) + newest.length == piece.base) {
      newest.length += piece.length;
      window.bytes += piece.length;
      return true;
    }
  }
  if (window.count == wire::kPiecesMax) return false;
  window.pieces[window.count++] = piece;
  window.bytes += piece.length;
  return true;
}

}  // namespace

void Window::cut(uint64_t length) {
  bytes = length;
  for (uint32_t i = 0; i < count; i++) {
    if (pieces[i].length >= length) {
      pieces[i].length = length;
      count = i + 1;
      return;
    }
    length -= pieces[i].length;
  }
}

/// Calls visit(element, offset into it, bytes, done so far) for each element that the range touches.
template <class Visit>
Refusal Elements::each(uint64_t offset, uint64_t length, const Visit& visit) const {
  uint64_t done = 0;
  for (uint32_t i = 0; i < count_ && done < length; i++) {
    if (offset >= list_[i].length) {
      offset -= list_[i].length;
      continue;
    }
    const uint64_t bytes = std::min(list_[i].length - offset, length - done);
    if (Refusal why = visit(i, offset, bytes, done)) return why;
    done += bytes;
    offset = 0;
  }
  return nullptr;
}

Refusal Elements::window(uint64_t offset, uint64_t length, Window& out) const {
  out.count = 0;
  out.bytes = 0;
  bool full = false;
  return each(offset, length, [&](uint32_t i, uint64_t into, uint64_t bytes, uint64_t) -> Refusal {
    const uint64_t address = list_[i].address + into;
    if (inline_mask_ >> i & 1) {
      full = full || !append(out, {reinterpret_cast<void*>(address), bytes});
      return nullptr;
    }
    for (uint64_t done = 0; done < bytes && !full;) {
      wire::Piece piece;
      if (Refusal why =
              keys_.translate(list_[i].lkey, domain_, need_, address + done, bytes - done, piece, queue_))
        return why;
      full = piece.length == 0 || !append(out, piece);
      done += piece.length;
    }
    return nullptr;
  });
}

Refusal Elements::load(uint64_t offset, void* to, uint64_t length) const {
  return each(offset, length, [&](uint32_t i, uint64_t into, uint64_t bytes, uint64_t done) -> Refusal {
    char* here = static_cast<char*>(to) + done;
    const uint64_t address = list_[i].address + into;
    if (!(inline_mask_ >> i & 1))
      return keys_.load(list_[i].lkey, domain_, need_, address, here, bytes, errors_, queue_);
    return fault_copy(here, reinterpret_cast<const void*>(address), bytes)
               ? nullptr
               : "inline data of the work request is gone";
  });
}

Refusal Elements::store(uint64_t offset, const void* from, uint64_t length, bool last) const {
  return each(offset, length, [&](uint32_t i, uint64_t into, uint64_t bytes, uint64_t done) {
    const bool ends = into + bytes == list_[i].length || (last && done + bytes == length);
    return keys_.store(list_[i].lkey, domain_, need_, list_[i].address + into,
                       static_cast<const char*>(from) + done, bytes, ends, errors_, queue_);
  });
}

}  // namespace verbatim::engine
