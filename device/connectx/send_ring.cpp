// SPDX-License-Identifier: MIT
#include "device/connectx/send_ring.h"

#include <algorithm>
#include <cstring>

#include "device/connectx/bsf.h"
#include "device/connectx/completion_ring.h"
#include "device/connectx/operation_counters.h"
#include "device/connectx/queue_access.h"
#include "device/connectx/tag_list.h"
#include "engine/frame_checksums.h"

namespace verbatim::connectx {

using engine::Opcode;
using engine::SendWork;
using engine::Sge;

namespace {

constexpr uint32_t kEntryBytesMax = 64 * kSegmentUnit;
constexpr uint32_t kUnitsPerBlock = kBasicBlock / kSegmentUnit;
constexpr uint32_t kDatagramUnits = sizeof(DatagramSegment) / kSegmentUnit;
constexpr uint32_t kCompactUnits = 1;  ///< of an address vector without a GRH
constexpr const char* kNotForDatagrams = "the operation is not offered by this service type";
constexpr const char* kTooShort = "the work queue entry ends before its opcode's segments do";

uint8_t wqe_opcode(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSend:
      return kOpSend;
    case Opcode::kSendImmediate:
      return kOpSendImmediate;
    case Opcode::kSegmentedSend:
      return kOpSegmentedSend;
    case Opcode::kSendInvalidate:
      return kOpSendInvalidate;
    case Opcode::kWrite:
      return kOpWrite;
    case Opcode::kWriteImmediate:
      return kOpWriteImmediate;
    case Opcode::kRead:
      return kOpRead;
    case Opcode::kCompareSwap:
      return kOpCompareSwap;
    case Opcode::kFetchAdd:
      return kOpFetchAdd;
    case Opcode::kAtomicWrite:
      return kOpAtomicWrite;
    case Opcode::kFlush:
      return kOpFlush;
    case Opcode::kKeyUpdate:
      return kOpUmr;
    case Opcode::kSignatureValue:
      return kOpSetPsv;
    case Opcode::kMemoryCopy:
      return kOpMmo;
    case Opcode::kTagList:
      return kOpTagMatching;
    case Opcode::kNop:
      return kOpNop;
  }
  return kOpNop;
}

}  // namespace

// What follows is for every message: it is inlined where it is used, in this file.

inline const std::byte* SendRing::at(uint32_t index, uint32_t offset) const {
  const size_t bytes = static_cast<size_t>(blocks_) * kBasicBlock;
  return base_ + ((static_cast<size_t>(index) * kBasicBlock + offset) & (bytes - 1));
}

template <class T>
inline T SendRing::read(uint32_t index, uint32_t unit) const {
  T value;
  // Segments are multiples of 16 bytes in a queue of 64-byte blocks, but one of several units may wrap.
  auto* to = reinterpret_cast<std::byte*>(&value);
  for (uint32_t done = 0; done < sizeof(T); done += kSegmentUnit)
    (void)read_queue(to + done, at(index, unit * kSegmentUnit + done), kSegmentUnit, revocable_);
  return value;
}

// Basic blocks rung and not yet passed at `index`.
inline uint32_t SendRing::waiting(uint32_t index) const {
  uint32_t counter = 0;
  if (!read_record(&doorbell_[kSendDoorbell], revocable_, counter)) return 0;
  return (counter - index) & 0xffff;
}

bool SendRing::moved() {
  uint32_t counter = 0;
  return read_record(&doorbell_[kSendDoorbell], revocable_, counter) &&
         seen_.exchange(counter, std::memory_order_relaxed) != counter;
}

engine::SendQueue::Fetch SendRing::fetch(uint32_t index, SendWork& work, uint32_t& next,
                                         const char*& reason) {
  const uint32_t blocks = waiting(index);
  if (blocks == 0 || broken_) return Fetch::kNone;
  next = index + 1;
  if (blocks > blocks_) {
    // Nothing after this can be believed: end one entry with the reason, then stand still until the next
    // reset.
    broken_ = true;
    work.destination.stream = 0;
    reason = "the send doorbell record runs ahead of the queue by more than it holds";
    return Fetch::kBad;
  }
  const auto control = read<ControlSegment>(index, 0);
  if (type_ == hw::QpType::kDci)
    work.destination.stream = static_cast<uint16_t>(control.stream[0] << 8 | control.stream[1]);
  const uint32_t units = control.qpn_ds & 0x3f;
  const uint32_t size = (units + kUnitsPerBlock - 1) / kUnitsPerBlock;
  if (units == 0 || size > blocks) {
    next = index + blocks;
    reason =
        units == 0 ? "the work queue entry's size is 0" : "the work queue entry is longer than what was rung";
    return Fetch::kBad;
  }
  next = index + size;
  work.last = size == blocks;
  work.signaled = (control.flags & kCompletionAlways) != 0;
  work.solicited = (control.flags & kSolicitedEvent) != 0;
  work.fence = control.flags >> kFenceShift >= 2;
  if (control.qpn_ds >> 8 != qpn_) {
    reason = "the work queue entry names another queue pair";
    return Fetch::kBad;
  }
  reason = decode(index, units, control, work);
  return reason ? Fetch::kBad : Fetch::kWork;
}

const char* SendRing::decode(uint32_t index, uint32_t units, const ControlSegment& control,
                             SendWork& work) const {
  uint32_t unit = 1;
  const auto opcode = static_cast<WqeOpcode>(control.index_opcode & 0xff);
  if (has_way_) [[unlikely]]
    if (const char* why = decode_way(index, opcode, units, work, unit)) return why;
  work.immediate = control.immediate.raw();
  bool remote = false, atomic = false;
  switch (opcode) {
    case kOpNop:
      work.opcode = Opcode::kNop;
      return nullptr;
    case kOpUmr:
      work.opcode = Opcode::kKeyUpdate;
      return sends_datagrams() ? kNotForDatagrams : nullptr;
    case kOpSetPsv:
      work.opcode = Opcode::kSignatureValue;
      return sends_datagrams() ? kNotForDatagrams : nullptr;
    case kOpMmo:
      work.opcode = Opcode::kMemoryCopy;
      return sends_datagrams() ? kNotForDatagrams : nullptr;
    case kOpTagMatching:
      work.opcode = Opcode::kTagList;
      return tags_ ? nullptr : "the queue pair's receive queue has no tag list";
    case kOpSend:
    case kOpSegmentedSend:
      work.opcode = opcode == kOpSend ? Opcode::kSend : Opcode::kSegmentedSend;
      break;
    case kOpSendImmediate:
      work.opcode = Opcode::kSendImmediate;
      break;
    case kOpSendInvalidate:
      work.opcode = Opcode::kSendInvalidate;
      work.immediate = control.immediate;
      break;
    case kOpWrite:
      work.opcode = Opcode::kWrite, remote = true;
      break;
    case kOpWriteImmediate:
      work.opcode = Opcode::kWriteImmediate, remote = true;
      break;
    case kOpRead:
      work.opcode = Opcode::kRead, remote = true;
      break;
    case kOpCompareSwap:
      work.opcode = Opcode::kCompareSwap, remote = atomic = true;
      break;
    case kOpFetchAdd:
      work.opcode = Opcode::kFetchAdd, remote = atomic = true;
      break;
    case kOpAtomicWrite:
      work.opcode = Opcode::kAtomicWrite, remote = true;
      break;
    case kOpFlush:
      return decode_flush(index, unit, units, control, work);
    default:
      return "unknown opcode in the work queue entry";
  }
  if (units < unit + remote + atomic) return kTooShort;
  if (remote) {
    const auto segment = read<RemoteSegment>(index, unit++);
    work.remote_address = segment.address;
    work.rkey = segment.rkey;
  }
  if (atomic) {
    const auto segment = read<AtomicSegment>(index, unit++);
    work.swap_or_add = segment.swap_or_add;
    work.compare = segment.compare;
  }
  return decode_data(index, unit, units, work);
}

// What says where a message goes, between the control segment and what the message does.
const char* SendRing::decode_way(uint32_t index, WqeOpcode opcode, uint32_t units, SendWork& work,
                                 uint32_t& unit) const {
  uint32_t size = 0;
  if (has_address(opcode)) {
    if (const char* why = decode_address(index, units - unit, work, size)) return why;
    unit += size;
  }
  if (type_ == hw::QpType::kRaw && (opcode == kOpSend || opcode == kOpSegmentedSend)) {
    if (const char* why = decode_frame(index, units - unit, work, size)) return why;
    unit += size;
  }
  if (type_ == hw::QpType::kXrcSend && !stays(opcode)) {
    if (units == unit) return kTooShort;
    work.destination.srqn = read<XrcSegment>(index, unit++).srqn & 0xffffff;
  }
  return nullptr;
}

const char* SendRing::decode_flush(uint32_t index, uint32_t unit, uint32_t units,
                                   const ControlSegment& control, SendWork& work) const {
  if (units == unit) return kTooShort;
  const auto segment = read<FlushSegment>(index, unit);
  work.opcode = Opcode::kFlush;
  work.immediate = control.immediate & 0xff;
  work.remote_address = segment.address;
  work.rkey = segment.rkey;
  work.reach = segment.bytes;
  return units == unit + 1 ? nullptr : "a flush has no local memory";
}

// `size`: how many of the units that are left it takes.
const char* SendRing::decode_address(uint32_t index, uint32_t units, SendWork& work, uint32_t& size) const {
  if (units < kCompactUnits) return kTooShort;
  const auto segment = read<DatagramSegment>(index, 1);
  const bool extended = segment.dest_qpn & kExtendedAv;
  if (!extended && !infiniband_)
    return "the address vector is of the compact form, which has no GID: an Ethernet port needs the extended "
           "one";
  size = extended ? kDatagramUnits : kCompactUnits;
  if (units < size) return kTooShort;
  engine::Destination& to = work.destination;
  to.qpn = segment.dest_qpn & 0xffffff;
  to.qkey = segment.qkey;
  to.access_key = static_cast<uint64_t>(segment.qkey) << 32 | segment.key_low;
  to.service_level = segment.rate_sl & 0xf;
  if (infiniband_) {
    to.lid = segment.rlid;
    to.has_grh = extended && (segment.gid_flow & kGrhPresent);
    if (!to.has_grh) return nullptr;
  }
  to.source_gid_index = static_cast<uint8_t>(segment.gid_flow >> kSourceGidShift);
  to.traffic_class = segment.traffic_class;
  to.hop_limit = segment.hop_limit;
  to.flow_label = segment.gid_flow & kFlowLabelMask;
  std::memcpy(to.gid.bytes.data(), segment.rgid, sizeof segment.rgid);
  return nullptr;
}

inline const char* SendRing::decode_data(uint32_t index, uint32_t unit, uint32_t units,
                                         SendWork& work) const {
  while (unit < units) {
    const auto segment = read<DataSegment>(index, unit);
    const uint32_t count = segment.byte_count;
    if (count & kInlineFlag) {
      if (const char* why = decode_inline(index, unit, units, count & ~kInlineFlag, work)) return why;
      continue;
    }
    if (work.sge_count == engine::kSgeMax) return "more scatter/gather elements than the device takes";
    work.sges[work.sge_count++] = {segment.address, count ? count : 1u << 31, segment.lkey};
    unit++;
  }
  return nullptr;
}

inline const char* SendRing::decode_inline(uint32_t index, uint32_t& unit, uint32_t units, uint32_t length,
                                           SendWork& work) const {
  const uint32_t size = (sizeof(InlineSegment) + length + kSegmentUnit - 1) / kSegmentUnit;
  if (length > units * kSegmentUnit || unit + size > units)
    return "inline data is longer than the work queue entry";
  const uint32_t offset = unit * kSegmentUnit + static_cast<uint32_t>(sizeof(InlineSegment));
  unit += size;
  return add_inline(index, offset, length, work);
}

inline const char* SendRing::add_inline(uint32_t index, uint32_t offset, uint32_t length,
                                        SendWork& work) const {
  while (length > 0) {
    if (work.sge_count == engine::kSgeMax) return "more scatter/gather elements than the device takes";
    const std::byte* from = at(index, offset);
    const size_t to_end = static_cast<size_t>(base_ + static_cast<size_t>(blocks_) * kBasicBlock - from);
    const uint32_t run = static_cast<uint32_t>(std::min<size_t>(length, to_end));
    work.inline_mask |= 1u << work.sge_count;
    work.sges[work.sge_count++] = {reinterpret_cast<uint64_t>(from), run, 0};
    offset += run;
    length -= run;
  }
  return nullptr;
}

// The first bytes of a frame may lie in its Ethernet segment, which is longer then.
const char* SendRing::decode_frame(uint32_t index, uint32_t units, SendWork& work, uint32_t& size) const {
  constexpr auto kStart = static_cast<uint32_t>(offsetof(EthernetSegment, inline_start));
  if (units == 0) return kTooShort;
  const auto segment = read<EthernetSegment>(index, 1);
  work.inserts_vlan = (segment.inline_bytes & kInsertVlan) != 0;
  if (work.inserts_vlan)
    work.vlan = static_cast<uint16_t>(segment.inline_start[0] << 8 | segment.inline_start[1]);
  const uint32_t bytes = work.inserts_vlan ? 0u : static_cast<uint32_t>(segment.inline_bytes);
  size = std::max(1u, (kStart + bytes + kSegmentUnit - 1) / kSegmentUnit);
  if (units < size) return kTooShort;
  if ((segment.checksums & kFrameNetworkChecksum) != 0) work.checksums |= engine::kNetworkChecksum;
  if ((segment.checksums & kFrameTransportChecksum) != 0) work.checksums |= engine::kTransportChecksum;
  work.segment_bytes = segment.segment_bytes;
  work.header_bytes = static_cast<uint16_t>(bytes);
  return add_inline(index, kSegmentUnit + kStart, bytes, work);
}

engine::SendQueue::Performed SendRing::perform(uint32_t index, bool outstanding, engine::Status& status,
                                               const char*& reason) {
  alignas(16) std::byte entry[kEntryBytesMax];
  const uint32_t units = read<ControlSegment>(index, 0).qpn_ds & 0x3f;
  for (uint32_t unit = 0; unit < units; unit++)
    (void)read_queue(entry + unit * kSegmentUnit, at(index, unit * kSegmentUnit), kSegmentUnit, revocable_);
  status = engine::Status::kLocalQpOperation;
  const auto& control = *reinterpret_cast<const ControlSegment*>(entry);
  if ((control.index_opcode & 0xff) == kOpTagMatching) {
    reason = tags_ ? tags_->operate({entry, units * kSegmentUnit}) : "there is no tag list";
    return reason ? Performed::kFailed : Performed::kDone;
  }
  reason = "the queue carries out no operations of its own";
  return local_ ? local_->perform({entry, units * kSegmentUnit}, outstanding, status, reason)
                : Performed::kFailed;
}

void SendRing::complete(const engine::SendCompletion& done) {
  if (OperationCounters* counters = counters_.load(std::memory_order_acquire)) [[unlikely]]
    counters->count_sent(done);
  const uint32_t opcode_qpn = static_cast<uint32_t>(wqe_opcode(done.opcode)) << 24 | qpn_;
  if (done.status != engine::Status::kSuccess)
    completions_->push_error(kCqeRequestError, done.status, done.vendor_detail, opcode_qpn, user_index_,
                             static_cast<uint16_t>(done.index));
  else if (done.signaled)
    completions_->push_request(opcode_qpn, user_index_, static_cast<uint16_t>(done.index), done.bytes);
}

void SendRing::on_key_error(uint32_t key, engine::DataTransform& transform) {
  if (const auto fault = take_fault(transform)) completions_->push_signature_error(key, *fault);
}

}  // namespace verbatim::connectx
