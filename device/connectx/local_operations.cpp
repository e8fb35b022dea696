// SPDX-License-Identifier: MIT
#include "device/connectx/local_operations.h"

#include <algorithm>
#include <cstring>

#include "base/fault_copy.h"
#include "device/connectx/bsf.h"
#include "device/connectx/protection_device.h"

namespace verbatim::connectx {

using engine::KeyChange;
using engine::KeyLayout;
using engine::KeyView;
using engine::SendQueue;
using engine::Status;

namespace {

constexpr const char* kTooShort = "the work queue entry ends before its opcode's segments do";

/// Takes segments off the front of an entry.
class Segments {
 public:
  explicit Segments(std::span<const std::byte> entry) : rest_(entry) {}
  template <class T>
  bool take(T& segment) {
    if (rest_.size() < sizeof segment) return false;
    std::memcpy(&segment, rest_.data(), sizeof segment);
    rest_ = rest_.subspan(sizeof segment);
    return true;
  }
  std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> rest_;
};

struct Right {
  uint64_t mask;
  uint8_t bit;
  uint32_t access;
};
constexpr Right kRights[] = {
    {kUmrMaskLocalWrite, kUmrKeyLocalWrite, engine::kLocalWrite},
    {kUmrMaskRemoteRead, kUmrKeyRemoteRead, engine::kRemoteRead},
    {kUmrMaskRemoteWrite, kUmrKeyRemoteWrite, engine::kRemoteWrite},
    {kUmrMaskAtomic, kUmrKeyAtomic, engine::kRemoteAtomic},
};

/// Everything but the list.
const char* read_change(const UmrControlSegment& control, const UmrKeySegment& key, uint32_t domain,
                        KeyChange& change) {
  constexpr uint64_t kIgnored = kUmrMaskLocalRead | kUmrMaskRelaxedWrite | kUmrMaskRelaxedRead;
  constexpr uint64_t kKnown = kUmrMaskLength | kUmrMaskStart | kUmrMaskPd | kUmrMaskRemoteInvalidate |
                              kUmrMaskBsf | kUmrMaskSignatureErrors | kUmrMaskVariant | kUmrMaskQpn |
                              kUmrMaskLocalWrite | kUmrMaskRemoteRead | kUmrMaskRemoteWrite | kUmrMaskAtomic |
                              kUmrMaskFree | kIgnored;
  const uint64_t mask = control.key_mask;
  if (mask & ~kKnown) return "the memory key update changes what this device lets nobody change";
  if ((mask & kUmrMaskPd) && (key.flags_pd & 0xffffff) != domain)
    return "a memory key update moves no key to another protection domain";
  const uint32_t check = control.flags >> kUmrCheckShift & 3;
  if (check == (kUmrMustBeFree | kUmrMustNotBeFree)) return "the key to change cannot be free and in use";
  if (check == kUmrMustBeFree) change.must = KeyChange::Must::kBeFree;
  if (check == kUmrMustNotBeFree) change.must = KeyChange::Must::kBeInUse;
  if (mask & kUmrMaskFree) change.free = (key.free & kUmrKeyFree) != 0;
  if (mask & kUmrMaskVariant) change.variant = static_cast<uint8_t>(key.qpn_variant);
  if (mask & kUmrMaskQpn) change.queue = key.qpn_variant >> 8 == kUmrAnyQp ? 0 : key.qpn_variant >> 8;
  if (mask & kUmrMaskStart) change.start = key.start;
  if (mask & kUmrMaskLength) change.length = key.length;
  change.exact = !(mask & kUmrMaskVariant);
  for (const Right& right : kRights) {
    if (!(mask & right.mask)) continue;
    change.access_mask |= right.access;
    if (key.access & right.bit) change.access |= right.access;
  }
  if (mask & kUmrMaskRemoteInvalidate) {
    change.access_mask |= engine::kRemoteInvalidate;
    if (key.flags_pd & kUmrKeyRemoteInvalidate) change.access |= engine::kRemoteInvalidate;
  }
  return nullptr;
}

}  // namespace

SendQueue::Performed LocalOperations::perform(std::span<const std::byte> entry, bool outstanding,
                                              Status& status, const char*& reason) {
  ControlSegment control;
  if (!Segments(entry).take(control)) return SendQueue::Performed::kFailed;
  bool later = false;
  if ((control.index_opcode & 0xff) == kOpUmr) {
    status = Status::kMemoryWindowBind;
    reason = update_key(entry, outstanding, later);
  } else if ((control.index_opcode & 0xff) == kOpSetPsv) {
    status = Status::kLocalQpOperation;
    reason = set_psv(entry);
  } else {
    reason = copy(entry, status);
  }
  if (later) return SendQueue::Performed::kLater;
  return reason ? SendQueue::Performed::kFailed : SendQueue::Performed::kDone;
}

// The entry: control segment, what changes, the key's context, its list or where that lies.
const char* LocalOperations::update_key(std::span<const std::byte> entry, bool outstanding, bool& later) {
  Segments segments(entry);
  ControlSegment head;
  UmrControlSegment control;
  UmrKeySegment key;
  if (!segments.take(head) || !segments.take(control) || !segments.take(key)) return kTooShort;
  KeyChange change;
  if (const char* why = read_change(control, key, domain_, change)) return why;
  change.bound_to = head.qpn_ds >> 8;
  KeyView view;
  const bool there = keys_.look(head.immediate >> 8, view);
  // Requests that have not ended may still be using the key.
  later = outstanding && there && (view.access & engine::kUpdatable) && !(view.access & engine::kFreeKey);
  if (later) return nullptr;

  const KeyLayout* old = there ? engine::KeyTable::layout_of(view) : nullptr;
  std::shared_ptr<engine::DataTransform> transform = old ? old->transform() : nullptr;
  const bool protects = (control.key_mask & kUmrMaskBsf) != 0;
  if (control.klm_octowords != 0 || protects) {
    if (!old) return "the key to change does not stand for a list of ranges";
    KeyList list{old->entries(), old->rounds()};
    if (control.klm_octowords != 0)
      if (const char* why = read_list(segments.rest(), control, old->shape(), *change.bound_to, list))
        return why;
    if (protects)
      if (const char* why = change_protection(control, key, segments.rest(), old->shape(), transform))
        return why;
    change.layout =
        std::make_unique<const KeyLayout>(old->shape(), std::move(list.entries), list.rounds, transform);
  }
  if (const char* why = keys_.update(head.immediate, domain_, change)) return why;
  if ((control.key_mask & kUmrMaskSignatureErrors) && transform) expect_signature_error(*transform);
  return nullptr;
}

// The byte stream formats follow the list in the entry.
const char* LocalOperations::change_protection(const UmrControlSegment& control, const UmrKeySegment& key,
                                               std::span<const std::byte> rest, const engine::KeyShape& shape,
                                               std::shared_ptr<engine::DataTransform>& transform) const {
  if (!(key.flags_pd & kUmrKeyBsf)) {
    transform = shape.transform_at_first;
    return nullptr;
  }
  if (!shape.takes_transform) return "the key to change was not made for signatures or encryption";
  const size_t bytes = control.flags & kUmrOffset ? 0 : size_t{control.translation_offset} * kSegmentUnit;
  if (bytes == 0) return nullptr;
  if (!(control.flags & kUmrInline))
    return "signatures and encryption are said in the queue entry itself only";
  const size_t list_bytes = size_t{control.klm_octowords} * kSegmentUnit;
  if (rest.size() < list_bytes || rest.size() - list_bytes < bytes) return kTooShort;
  return decode_bsf(rest.subspan(list_bytes, bytes), protection_, domain_, transform);
}

// Blocks start from what their key's byte stream format says, so that only the number matters.
const char* LocalOperations::set_psv(std::span<const std::byte> entry) const {
  Segments segments(entry);
  ControlSegment head;
  SetPsvSegment segment;
  if (!segments.take(head) || !segments.take(segment)) return kTooShort;
  return protection_.has_psv(segment.psv & 0xffffff, domain_)
             ? nullptr
             : "the protection domain has no signature value (PSV) of that number";
}

// In the entry itself or in memory; `list` is what the key has so far.
const char* LocalOperations::read_list(std::span<const std::byte> rest, const UmrControlSegment& control,
                                       const engine::KeyShape& shape, uint32_t queue, KeyList& list) {
  const size_t bytes = size_t{control.klm_octowords} * kSegmentUnit;
  std::vector<std::byte> fetched;
  if (!(control.flags & kUmrInline)) {
    DataSegment where;
    if (!Segments(rest).take(where)) return kTooShort;
    if (where.byte_count != 0 && where.byte_count < bytes)
      return "the memory of the key's list is shorter than the list";
    fetched.resize(bytes);
    if (const char* why =
            keys_.load(where.lkey, domain_, 0, where.address, fetched.data(), bytes, nullptr, queue))
      return why;
    rest = fetched;
  }
  if (rest.size() < bytes) return kTooShort;
  KeyList part;
  if (const char* why = decode_list(rest.first(bytes), shape, part)) return why;
  if (control.flags & kUmrOffset) {
    const uint64_t first = uint64_t{control.translation_offset_high} << 16 | control.translation_offset;
    return replace_entries(list, part, first, shape);
  }
  list = std::move(part);
  return nullptr;
}

const char* LocalOperations::copy(std::span<const std::byte> entry, Status& status) {
  constexpr uint64_t kStageBytes = 4096;
  Segments segments(entry);
  ControlSegment head;
  CopySegment unused;
  DataSegment from, to;
  status = Status::kLocalQpOperation;
  if (!segments.take(head) || !segments.take(unused) || !segments.take(from) || !segments.take(to))
    return kTooShort;
  if (head.index_opcode >> 24 != kMmoDma) return "of the operations on memory only copies are offered";
  status = Status::kLocalLength;
  const uint64_t length = from.byte_count ? uint64_t{from.byte_count} : uint64_t{1} << 31;
  if (from.byte_count != to.byte_count) return "the two sides of a copy have different lengths";
  if (length > uint64_t{1} << kLogCopyBytesMax) return "the copy is longer than the device makes in one go";
  status = Status::kLocalProtection;
  const uint32_t queue = head.qpn_ds >> 8;
  for (uint64_t done = 0, bytes; done < length; done += bytes) {
    wire::Piece here, there;
    const uint64_t left = length - done;
    if (const char* why = keys_.translate(from.lkey, domain_, 0, from.address + done, left, here, queue))
      return why;
    if (const char* why =
            keys_.translate(to.lkey, domain_, engine::kLocalWrite, to.address + done, left, there, queue))
      return why;
    bytes = std::min(here.length, there.length);
    if (bytes > 0) {
      if (!fault_copy(there.base, here.base, bytes)) return "memory of the copy is not mapped";
      continue;
    }
    std::byte buffer[kStageBytes];
    bytes = std::min(left, kStageBytes);
    if (const char* why =
            keys_.load(from.lkey, domain_, 0, from.address + done, buffer, bytes, nullptr, queue))
      return why;
    if (const char* why = keys_.store(to.lkey, domain_, engine::kLocalWrite, to.address + done, buffer, bytes,
                                      bytes == left, nullptr, queue))
      return why;
  }
  return nullptr;
}

}  // namespace verbatim::connectx
