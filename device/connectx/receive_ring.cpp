// SPDX-License-Identifier: MIT
#include "device/connectx/receive_ring.h"

#include <mutex>

#include "device/connectx/queue_access.h"

namespace verbatim::connectx {

namespace {

constexpr const char* kGone = "the receive queue's memory is not mapped any more";

inline uint32_t posted(const uint32_t* doorbell, bool revocable, uint32_t taken) {
  uint32_t counter = 0;
  return read_record(&doorbell[kReceiveDoorbell], revocable, counter) ? (counter - taken) & 0xffff : 0;
}

}  // namespace

const char* read_scatter_list(const std::byte* entry, uint32_t room, bool revocable,
                              engine::ReceiveWork& work) {
  work.sge_count = 0;
  for (uint32_t offset = 0; offset + sizeof(DataSegment) <= room; offset += sizeof(DataSegment)) {
    DataSegment segment;
    if (!read_queue(&segment, entry + offset, sizeof segment, revocable)) return kGone;
    const uint32_t count = segment.byte_count;
    if (segment.lkey == kInvalidKey) break;
    if (count & kInlineFlag) return "a receive entry holds inline data";
    if (work.sge_count == engine::kSgeMax) return "a receive entry has more elements than the device takes";
    work.sges[work.sge_count++] = {segment.address, count ? count : 1u << 31, segment.lkey};
  }
  return nullptr;
}

engine::ReceiveQueue::Take ReceiveRing::take(engine::ReceiveWork& work, const char*& reason) {
  const uint32_t ready = posted(doorbell_, memory_.revocable, taken_);
  if (ready == 0 || broken_) return Take::kNone;
  work.index = taken_ & 0xffff;
  work.sge_count = 0;
  if (ready > memory_.entries) {
    broken_ = true;
    reason = "the receive doorbell record runs ahead of the queue by more than it holds";
    return Take::kBad;
  }
  const size_t slot = taken_++ & (memory_.entries - 1);
  reason = read_scatter_list(static_cast<const std::byte*>(memory_.base) + slot * memory_.stride + link_,
                             memory_.stride - link_, memory_.revocable, work);
  return reason ? Take::kBad : Take::kWork;
}

// With the lock held.
engine::ReceiveQueue::Take SharedRing::fail(const char* why, const char*& reason) {
  broken_ = true;
  event_(hw::AsyncEvent::kSrqError);
  reason = why;
  return Take::kBad;
}

engine::ReceiveQueue::Take SharedRing::take(engine::ReceiveWork& work, const char*& reason) {
  std::lock_guard<SpinLock> hold(lock_);
  const uint32_t ready = posted(doorbell_, memory_.revocable, taken_);
  if (ready == 0 || broken_) return Take::kNone;
  const uint32_t index = order_ == SharedOrder::kChain ? next_ : taken_ & (memory_.entries - 1);
  const std::byte* entry =
      static_cast<const std::byte*>(memory_.base) + static_cast<size_t>(index) * memory_.stride;
  work.index = index;
  work.sge_count = 0;
  if (ready > memory_.entries)
    return fail("the shared receive queue's doorbell record runs ahead by more than it holds", reason);
  SharedNextSegment link{};
  if (order_ == SharedOrder::kChain) {
    if (!read_queue(&link, entry, sizeof link, memory_.revocable)) return fail(kGone, reason);
    if (link.next_index >= memory_.entries)
      return fail("the shared receive queue's chain leads outside the queue", reason);
    next_ = link.next_index;
  }
  taken_++;
  if (limit_ != 0 && ready - 1 < limit_) {
    limit_ = 0;
    event_(hw::AsyncEvent::kSrqLimitReached);
  }
  const uint32_t list = order_ == SharedOrder::kCyclicBare ? 0 : sizeof link;
  reason = read_scatter_list(entry + list, memory_.stride - list, memory_.revocable, work);
  return reason ? Take::kBad : Take::kWork;
}

void SharedRing::set_limit(uint32_t limit) {
  std::lock_guard<SpinLock> hold(lock_);
  limit_ = limit;
  if (limit_ == 0 || posted(doorbell_, memory_.revocable, taken_) >= limit_) return;
  limit_ = 0;
  event_(hw::AsyncEvent::kSrqLimitReached);
}

uint32_t SharedRing::limit() {
  std::lock_guard<SpinLock> hold(lock_);
  return limit_;
}

bool SharedRing::broken() {
  std::lock_guard<SpinLock> hold(lock_);
  return broken_;
}

}  // namespace verbatim::connectx
