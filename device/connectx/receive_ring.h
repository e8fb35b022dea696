// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "base/spinlock.h"
#include "device/connectx/formats.h"
#include "device/hw/hca.h"
#include "engine/work.h"

namespace verbatim::connectx {

/// Reads the scatter list of one receive entry: `room` bytes of data segments, ended by the invalid key.
const char* read_scatter_list(const std::byte* entry, uint32_t room, bool revocable,
                              engine::ReceiveWork& work);

/// A receive queue in ConnectX format: entries of `stride` bytes, taken in order as far as the doorbell
/// record tells. Their scatter lists begin behind `link` bytes.
class ReceiveRing final : public engine::ReceiveQueue {
 public:
  ReceiveRing(const hw::QueueMemory& memory, const uint32_t* doorbell, uint32_t link = 0)
      : memory_(memory), doorbell_(doorbell), link_(link) {}
  void reset() { taken_ = 0, broken_ = false; }
  Take take(engine::ReceiveWork& work, const char*& reason) override;

 private:
  const hw::QueueMemory memory_;
  const uint32_t* doorbell_;
  const uint32_t link_;
  uint32_t taken_ = 0;  ///< running; under the responder's lock
  bool broken_ = false;
};

/// How the entries of a shared receive queue follow each other.
enum class SharedOrder : uint8_t {
  kChain,       ///< each begins with a segment that names the next
  kCyclic,      ///< one after the other; the segment is there and does not matter
  kCyclicBare,  ///< one after the other, and each begins with its scatter list
};

/// A shared receive queue.
class SharedRing final : public engine::ReceiveQueue {
 public:
  using Event = std::function<void(hw::AsyncEvent)>;
  SharedRing(const hw::QueueMemory& memory, const uint32_t* doorbell, Event event,
             SharedOrder order = SharedOrder::kChain)
      : memory_(memory), doorbell_(doorbell), event_(std::move(event)), order_(order) {}
  Take take(engine::ReceiveWork& work, const char*& reason) override;
  /// An event when fewer than `limit` entries are left, once.
  void set_limit(uint32_t limit);
  uint32_t limit();
  bool broken();

 private:
  Take fail(const char* why, const char*& reason);

  const hw::QueueMemory memory_;
  const uint32_t* doorbell_;
  const Event event_;
  const SharedOrder order_;
  SpinLock lock_;
  uint32_t next_ = 0;
  uint32_t taken_ = 0;
  uint32_t limit_ = 0;
  bool broken_ = false;
};

}  // namespace verbatim::connectx
