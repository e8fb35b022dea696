// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "device/hw/hca.h"

namespace verbatim::hw {

/// Doorbells that programs ring by plain stores: into a doorbell record first, then into a UAR page. Thread
/// safe.
class RawDoorbells {
 public:
  virtual ~RawDoorbells() = default;

  /// A zeroed UAR page of 4096 bytes, until it is given back; nullptr: no memory.
  virtual std::byte* take_page() = 0;
  virtual void give_back(std::byte* page) = 0;

  /// What is stored into the page's registers, 8 bytes at each offset, is taken out (they read as 0 again)
  /// and given to Hca::ring_register, until the page is given back or the device closed. Of several stores to
  /// one register between two looks the last one is seen. The list of offsets must stay.
  virtual void watch_registers(std::byte* page, std::span<const uint16_t> offsets, Hca& hca,
                               uint32_t number) = 0;

  /// Rings the send doorbell of `qp` whenever the word differs from what it was, until forgotten. The word
  /// must stay readable until then. False, and nothing happens, when it is watched already.
  virtual bool watch(const uint32_t* word, Hca& hca, Qp* qp) = 0;
  /// The same with the arm doorbell of `cq` (Hca::ring_arm).
  virtual bool watch(const uint32_t* word, Hca& hca, Cq* cq) = 0;
  /// Returns when the object is not touched any more.
  virtual void forget(const uint32_t* word) = 0;
  /// All of a device that is closed.
  virtual void forget_all(const Hca& hca) = 0;
};

}  // namespace verbatim::hw
