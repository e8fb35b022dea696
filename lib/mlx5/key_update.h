// SPDX-License-Identifier: MIT
#pragma once

// A memory key update under construction: shared by the setters of layouts and of protection. With the send
// queue's lock held.

#include "lib/mlx5/builders.h"
#include "lib/mlx5/memory_key.h"

namespace verbatim::mlx5 {

inline void fail(QueuePair& qp, int error) {
  if (qp.batch.error == 0) qp.batch.error = error;
}

inline connectx::UmrControlSegment& control_of(QueuePair& qp) {
  return *reinterpret_cast<connectx::UmrControlSegment*>(qp.block_at(qp.block) +
                                                         sizeof(connectx::ControlSegment));
}
inline connectx::UmrKeySegment& own(QueuePair& qp) {
  return *reinterpret_cast<connectx::UmrKeySegment*>(qp.block_at(qp.block + 1));
}

/// Whether a memory key update is under construction and takes another setter.
inline bool takes_setter(QueuePair& qp) {
  if (qp.batch.error != 0) return false;
  if (qp.batch.key != nullptr && qp.batch.setters != 0) return true;
  fail(qp, EINVAL);
  return false;
}

/// With the last one the update is complete.
inline void note_setter(QueuePair& qp) {
  if (--qp.batch.setters == 0) finish_protection(qp);
}

/// Adds a segment of whole units, which may go on at the ring's beginning.
template <class Segment>
void append(QueuePair& qp, const Segment& segment) {
  static_assert(sizeof segment % kUnit == 0);
  for (size_t done = 0; done < sizeof segment; done += kUnit) {
    std::memcpy(qp.batch.at, reinterpret_cast<const std::byte*>(&segment) + done, kUnit);
    qp.batch.at = advance(qp, qp.batch.at, kUnit);
    qp.batch.units++;
  }
}

}  // namespace verbatim::mlx5
