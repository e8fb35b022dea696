// SPDX-License-Identifier: MIT
#include "device/connectx/receive_ring.h"

#include <cstring>
#include <mutex>

namespace verbatim::connectx {

namespace {

uint32_t posted(const uint32_t* doorbell, uint32_t taken) {
  return (Be32::from_raw(__atomic_load_n(&doorbell[kReceiveDoorbell], __ATOMIC_ACQUIRE)) - taken) & 0xffff;
}

}  // namespace

const char* read_scatter_list(const std::byte* entry, uint32_t room, engine::ReceiveWork& work) {
  work.sge_count = 0;
  for (uint32_t offset = 0; offset + sizeof(DataSegment) <= room; offset += sizeof(DataSegment)) {
    DataSegment segment;
    std::memcpy(&segment, entry + offset, sizeof segment);
    const uint32_t count = segment.byte_count;
    if (segment.lkey == kInvalidKey) break;
    if (count & kInlineFlag) return "a receive entry holds inline data";
    if (work.sge_count == engine::kSgeMax) return "a receive entry has more elements than the device takes";
    work.sges[work.sge_count++] = {segment.address, count ? count : 1u << 31, segment.lkey};
  }
  return nullptr;
}

engine::ReceiveQueue::Take ReceiveRing::take(engine::ReceiveWork& work, const char*& reason) {
  const uint32_t ready = posted(doorbell_, taken_);
  if (ready == 0 || broken_) return Take::kNone;
  work.index = taken_ & 0xffff;
  work.sge_count = 0;
  if (ready > memory_.entries) {
    broken_ = true;
    reason = "the receive doorbell record runs ahead of the queue by more than it holds";
    return Take::kBad;
  }
  const size_t slot = taken_++ & (memory_.entries - 1);
  reason = read_scatter_list(static_cast<const std::byte*>(memory_.base) + slot * memory_.stride,
                             memory_.stride, work);
  return reason ? Take::kBad : Take::kWork;
}

engine::ReceiveQueue::Take SharedRing::take(engine::ReceiveWork& work, const char*& reason) {
  std::lock_guard<SpinLock> hold(lock_);
  const uint32_t ready = posted(doorbell_, taken_);
  if (ready == 0 || broken_) return Take::kNone;
  const std::byte* entry =
      static_cast<const std::byte*>(memory_.base) + static_cast<size_t>(next_) * memory_.stride;
  SharedNextSegment link;
  std::memcpy(&link, entry, sizeof link);
  work.index = next_;
  work.sge_count = 0;
  if (ready > memory_.entries || link.next_index >= memory_.entries) {
    broken_ = true;
    event_(hw::AsyncEvent::kSrqError);
    reason = "the shared receive queue's chain or doorbell record leads outside the queue";
    return Take::kBad;
  }
  next_ = link.next_index;
  taken_++;
  if (limit_ != 0 && ready - 1 < limit_) {
    limit_ = 0;
    event_(hw::AsyncEvent::kSrqLimitReached);
  }
  reason = read_scatter_list(entry + sizeof link, memory_.stride - sizeof link, work);
  return reason ? Take::kBad : Take::kWork;
}

void SharedRing::set_limit(uint32_t limit) {
  std::lock_guard<SpinLock> hold(lock_);
  limit_ = limit;
  if (limit_ == 0 || posted(doorbell_, taken_) >= limit_) return;
  limit_ = 0;
  event_(hw::AsyncEvent::kSrqLimitReached);
}

uint32_t SharedRing::limit() {
  std::lock_guard<SpinLock> hold(lock_);
  return limit_;
}

}  // namespace verbatim::connectx
