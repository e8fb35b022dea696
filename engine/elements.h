// SPDX-License-Identifier: MIT
#pragma once

#include "engine/memory_keys.h"
#include "engine/work.h"
#include "wire/link/segment.h"

namespace verbatim::engine {

/// Some pieces of memory, one behind the other: as many as a segment takes.
struct Window {
  wire::Piece pieces[wire::kPiecesMax];
  uint32_t count = 0;
  uint64_t bytes = 0;  ///< of all pieces

  /// Leaves the first `length` bytes, at least one.
  void cut(uint64_t length);
};

/// The memory that the elements of a work request name, as one range of bytes. Through indirect keys an
/// element may be any number of pieces: they are handed out a window at a time. Used inside an AccessScope.
class Elements {
 public:
  /// `need`: rights besides reading. Bit i of `inline_mask`: element i needs no key. `queue`: see KeyTable.
  /// `errors` hears of those that keys' transforms record.
  Elements(const KeyTable& keys, uint32_t domain, uint32_t need, const Sge* list, uint32_t count,
           KeyErrors* errors, uint32_t inline_mask = 0, uint32_t queue = 0)
      : keys_(keys),
        domain_(domain),
        need_(need),
        queue_(queue),
        list_(list),
        count_(count),
        errors_(errors),
        inline_mask_(inline_mask) {}

  /// The pieces of the bytes [offset, offset + length), from the first byte on as far as they fit. No bytes:
  /// they are not in memory as the wire has them, so they have to be loaded or stored.
  Refusal window(uint64_t offset, uint64_t length, Window& out) const;
  /// Copies bytes out of the memory.
  Refusal load(uint64_t offset, void* to, uint64_t length) const;
  /// Copies bytes into it. `last`: the message ends with them.
  Refusal store(uint64_t offset, const void* from, uint64_t length, bool last) const;

 private:
  template <class Visit>
  Refusal each(uint64_t offset, uint64_t length, const Visit& visit) const;

  const KeyTable& keys_;
  const uint32_t domain_, need_, queue_;
  const Sge* list_;
  const uint32_t count_;
  KeyErrors* const errors_;
  const uint32_t inline_mask_;
};

}  // namespace verbatim::engine
