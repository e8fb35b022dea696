// SPDX-License-Identifier: MIT
#include "device/connectx/tag_list.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace verbatim::connectx {

using engine::MessageHead;
using engine::ReceiveWork;
using Take = engine::ReceiveQueue::Take;

namespace {

constexpr uint32_t kHeadersBytes = sizeof(TagHeader) + sizeof(RendezvousHeader);

/// Whether an entry of the list may be meant.
bool has_tag(const MessageHead& head, const TagHeader& header) {
  if (head.length < sizeof(TagHeader)) return false;
  return header.operation == kTagEager ||
         (header.operation == kTagRendezvous && head.length >= kHeadersBytes);
}

}  // namespace

TagList::TagList(SharedRing& untagged, CompletionRing& completions, uint32_t user_index, uint32_t size)
    : untagged_(untagged), completions_(completions), user_index_(user_index), entries_(size + 1) {}

// With the lock held: the oldest that fits.
TagList::Entry* TagList::find(uint64_t tag, uint32_t& index) {
  for (const uint16_t each : order_) {
    Entry& entry = entries_[each];
    if (!entry.armed || (tag & entry.mask) != entry.tag) continue;
    index = each;
    return &entry;
  }
  return nullptr;
}

bool TagList::remove(uint32_t index) {
  if (index >= entries_.size() || !entries_[index].live) return false;
  entries_[index].live = entries_[index].armed = false;
  std::erase(order_, static_cast<uint16_t>(index));
  return true;
}

Take TagList::take(const MessageHead& head, uint32_t qpn, bool reads, ReceiveWork& work, TagMatch& match,
                   const char*& reason) {
  match = TagMatch{};
  std::memcpy(&match.header, head.bytes, std::min<size_t>(head.length, sizeof match.header));
  const bool tagged = has_tag(head, match.header);
  const std::lock_guard hold(lock_);
  uint32_t index = 0;
  if (!tagged || !find(match.header.tag, index)) {
    // In the same step as the search: the next message must find the count that this one leaves.
    const Take taken = untagged_.take(work, reason);
    match.event = tagged ? kTagUnexpected : kTagNoTag;
    if (tagged && taken != Take::kNone) found_++;
    return taken;
  }
  consume(head, index, reads, match);
  work.index = index;
  work.sge_count = match.buffer.length > 0 ? 1 : 0;
  work.sges[0] = match.buffer;
  // The headers of a rendezvous that the program carries out are its message.
  work.skipped = match.event == kTagConsumedForProgram ? 0
                 : match.rendezvous                    ? UINT32_MAX
                                                       : sizeof(TagHeader);
  if (match.told) complete(match, kTagConsumed, qpn, 0, nullptr);
  return Take::kWork;
}

// With the lock held.
void TagList::consume(const MessageHead& head, uint32_t index, bool reads, TagMatch& match) {
  match.entry = index;
  match.buffer = entries_[index].buffer;
  match.event = kTagConsumedWhole;
  match.rendezvous = match.header.operation == kTagRendezvous;
  if (match.rendezvous) {
    std::memcpy(&match.where, head.bytes + sizeof(TagHeader), sizeof match.where);
    if (!reads || match.where.length > match.buffer.length) match.event = kTagConsumedForProgram;
  }
  match.told = match.rendezvous ? match.event != kTagConsumedForProgram : !head.whole;
  remove(index);
}

void TagList::complete(const TagMatch& match, TagEvent event, uint32_t qpn, uint32_t bytes,
                       const uint32_t* immediate) {
  CompletionRing::Received cqe{};
  cqe.cqe_opcode = immediate ? kCqeSendImmediate : kCqeSend;
  cqe.immediate_raw = immediate ? *immediate : 0;
  cqe.user_index = user_index_;
  cqe.bytes = bytes;
  cqe.qpn = qpn;
  cqe.application = tag_application(event, match.entry);
  if (event != kTagDataPlaced && event != kTagCanceled) cqe.head = &match.header;
  completions_.push_receive(cqe);
}

// With the lock held.
void TagList::note_handled(const TagSegment& segment) {
  if ((segment.flags & kTagHandledGiven) != 0) handled_ = segment.handled;
  if (handled_ != found_) return;
  for (const uint16_t each : order_) entries_[each].armed = true;
}

// With the lock held.
const char* TagList::append(const TagSegment& segment, const DataSegment& data) {
  if (segment.index >= entries_.size()) return "the tag list has no such entry";
  if (entries_[next_].live) return "the tag list is full";
  const uint32_t bytes = data.byte_count;
  if ((bytes & kInlineFlag) != 0) return "the buffer of a tag cannot be inline data";
  Entry& entry = entries_[next_];
  const bool empty = data.lkey == kInvalidKey;
  entry = {true, false, segment.tag, segment.mask,
           empty ? engine::Sge{} : engine::Sge{data.address, bytes, data.lkey}};
  order_.push_back(static_cast<uint16_t>(next_));
  return nullptr;
}

// With the lock held.
void TagList::tell(const TagSegment& segment, uint16_t work, TagEvent event, uint32_t index, bool done,
                   uint32_t qpn) {
  if ((segment.flags & kTagCompletion) == 0) return;
  TagResult result{};
  result.success = done ? kTagSuccess : 0u;
  result.unexpected = found_;
  CompletionRing::Received cqe{};
  cqe.cqe_opcode = kCqeNoPacket;
  cqe.user_index = user_index_;
  cqe.qpn = qpn;
  cqe.counter = work;
  cqe.application = tag_application(event, index);
  cqe.head = &result;
  completions_.push_receive(cqe);
}

const char* TagList::operate(std::span<const std::byte> bytes) {
  ControlSegment control;
  TagSegment segment;
  DataSegment data{};
  if (bytes.size() < sizeof control + sizeof segment)
    return "the work queue entry ends before its tag segment does";
  std::memcpy(&control, bytes.data(), sizeof control);
  std::memcpy(&segment, bytes.data() + sizeof control, sizeof segment);
  const auto work = static_cast<uint16_t>(control.index_opcode >> 8);
  const uint32_t qpn = control.qpn_ds >> 8;
  const std::lock_guard hold(lock_);
  switch (segment.operation >> 4) {
    case kTagNothing:
      note_handled(segment);
      tell(segment, work, kTagNothingDone, 0, true, qpn);
      return nullptr;
    case kTagAppend: {
      if (bytes.size() < sizeof control + sizeof segment + sizeof data)
        return "the work queue entry ends before the buffer of the tag";
      std::memcpy(&data, bytes.data() + sizeof control + sizeof segment, sizeof data);
      const uint32_t filled = next_;
      if (const char* why = append(segment, data)) return why;
      next_ = segment.index;
      note_handled(segment);
      tell(segment, work, kTagAppended, filled, true, qpn);
      return nullptr;
    }
    case kTagRemove: {
      const bool removed = remove(segment.index);
      note_handled(segment);
      tell(segment, work, kTagRemoved, segment.index, removed, qpn);
      return nullptr;
    }
    default:
      return "there is no such operation on a tag list";
  }
}

}  // namespace verbatim::connectx
