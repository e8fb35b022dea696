// SPDX-License-Identifier: MIT
#include "wire/link/shm/entry.h"

#include <cstring>

namespace verbatim::wire::shm {

namespace {

bool is_answer(Operation operation) {
  return operation == Operation::kAck || operation == Operation::kReadResponse ||
         operation == Operation::kAtomicResponse;
}

template <class T>
void put(std::byte*& at, const T& value) {
  std::memcpy(at, &value, sizeof value);
  at += sizeof value;
}

template <class T>
T take(const std::byte*& at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  at += sizeof value;
  return value;
}

constexpr uint32_t kKindsShift = 20, kFlowLabelMask = (1u << kKindsShift) - 1;
constexpr uint32_t kGidTypeMask = 3, kHasGrh = 4;

uint32_t label_and_kinds(const Segment& s) {
  const uint32_t kinds = static_cast<uint32_t>(s.gid_type) | (s.has_grh ? kHasGrh : 0);
  return kinds << kKindsShift | (s.flow_label & kFlowLabelMask);
}

}  // namespace

namespace {

// What each operation cannot be without.
constexpr uint8_t kOperationForms[] = {
    0,                        // kSend
    kHasRemote,               // kWrite
    kHasRemote,               // kReadRequest
    kHasRemote | kHasAtomic,  // kCompareSwap
    kHasRemote | kHasAtomic,  // kFetchAdd
    kHasRemote,               // kAtomicWrite
    kHasRemote,               // kFlush
    0,                        // kReadResponse
    kHasAtomic,               // kAtomicResponse
    0,                        // kAck
    0,                        // kDisconnect
};
static_assert(sizeof kOperationForms == static_cast<size_t>(Operation::kDisconnect) + 1);

constexpr uint8_t kTransportForms[] = {0, 0, kHasDatagram, kHasConnection, kHasSharedQueue};
static_assert(sizeof kTransportForms == static_cast<size_t>(Transport::kXrc) + 1);

uint8_t needed_form(Operation operation, Transport transport) {
  return kOperationForms[static_cast<uint8_t>(operation)] | kTransportForms[static_cast<uint8_t>(transport)];
}

}  // namespace

uint8_t form_of(const Segment& segment) {
  const bool sequence =
      segment.base_psn != segment.psn || segment.packets != 1 || segment.pkey != kDefaultPkey;
  const bool addressed = segment.has(kPassedOn);
  return static_cast<uint8_t>((sequence ? kHasSequence : 0) | (addressed ? kHasDatagram : 0) |
                              needed_form(segment.operation, segment.transport));
}

void write_head(const Segment& s, uint8_t form, uint16_t slots, std::byte* at) {
  // In place: copied from elsewhere it would be read back right after it was written, which stalls a
  // processor.
  auto* header = reinterpret_cast<EntryHeader*>(at);
  header->slots = slots;
  header->operation = static_cast<uint8_t>(static_cast<uint32_t>(s.transport) << kTransportShift |
                                           static_cast<uint32_t>(s.operation));
  header->form = form;
  header->flags = s.flags;
  header->syndrome = s.syndrome;
  header->service_level = s.service_level;
  header->dest_qpn = s.dest_qpn;
  header->src_qpn = s.src_qpn;
  header->psn = s.psn;
  header->length = s.length;
  header->immediate = is_answer(s.operation) ? s.msn : s.has(kAcknowledges) ? s.ack_psn : s.immediate;
  if (!(form & kExtensions)) return;
  at += sizeof *header;
  if (form & kHasSequence)
    put(at, SequenceExt{s.base_psn, s.packets, static_cast<uint16_t>(s.pkey ^ kDefaultPkey), {}});
  if (form & kHasRemote) put(at, RemoteExt{s.remote_address, s.rkey, s.total_length});
  if (form & kHasAtomic) put(at, AtomicExt{s.swap_or_add, s.compare});
  if (form & kHasDatagram)
    put(at, DatagramExt{s.qkey, label_and_kinds(s), s.traffic_class, s.hop_limit, s.pkey, s.source_lid,
                        s.dest_lid, s.source_gid, s.dest_gid});
  if (form & kHasConnection) put(at, ConnectionExt{s.access_key, s.connection, 0});
  if (form & kHasSharedQueue) put(at, SharedQueueExt{s.srqn, {0, 0, 0}});
}

bool read_head(const EntryHeader& header, const std::byte* at, Segment& s) {
  const uint8_t transport = header.operation >> kTransportShift,
                operation = header.operation & kOperationMask;
  if (operation > static_cast<uint8_t>(Operation::kDisconnect) ||
      transport > static_cast<uint8_t>(Transport::kXrc))
    return false;
  s.operation = static_cast<Operation>(operation);
  s.transport = static_cast<Transport>(transport);
  if (s.operation == Operation::kDisconnect && s.transport != Transport::kDc &&
      s.transport != Transport::kXrc)
    return false;
  const uint8_t needed = needed_form(s.operation, s.transport);
  if ((header.form & needed) != needed) return false;
  s.flags = header.flags;
  s.syndrome = header.syndrome;
  s.service_level = header.service_level;
  s.pkey = kDefaultPkey;
  s.dest_qpn = header.dest_qpn & 0xffffff;
  const bool nameless =
      s.transport == Transport::kRc || s.transport == Transport::kUc || s.transport == Transport::kXrc;
  s.src_qpn = s.has(kPassedOn) && nameless ? kUnknownQpn : header.src_qpn & 0xffffff;
  s.psn = s.base_psn = header.psn & kPsnMask;
  s.packets = 1;
  s.length = s.total_length = header.length;
  (is_answer(s.operation) ? s.msn : s.has(kAcknowledges) ? s.ack_psn : s.immediate) = header.immediate;
  if (!(header.form & kExtensions)) return true;
  at += sizeof header;
  if (header.form & kHasSequence) {
    const auto ext = take<SequenceExt>(at);
    s.base_psn = ext.base_psn & kPsnMask;
    s.packets = ext.packets;
    s.pkey = ext.other_pkey ^ kDefaultPkey;
  }
  if (header.form & kHasRemote) {
    const auto ext = take<RemoteExt>(at);
    s.remote_address = ext.address;
    s.rkey = ext.rkey;
    s.total_length = ext.total_length;
  }
  if (header.form & kHasAtomic) {
    const auto ext = take<AtomicExt>(at);
    s.swap_or_add = ext.swap_or_add;
    s.compare = ext.compare;
  }
  if (header.form & kHasDatagram) {
    const auto ext = take<DatagramExt>(at);
    s.qkey = ext.qkey;
    s.flow_label = ext.flow_label_kinds & kFlowLabelMask;
    const uint32_t kinds = ext.flow_label_kinds >> kKindsShift;
    s.has_grh = (kinds & kHasGrh) != 0;
    const uint32_t gid_type = kinds & kGidTypeMask;
    s.gid_type =
        gid_type > static_cast<uint8_t>(GidType::kRoceV2) ? GidType::kRoceV2 : static_cast<GidType>(gid_type);
    s.pkey = ext.pkey;
    s.traffic_class = ext.traffic_class;
    s.hop_limit = ext.hop_limit;
    s.source_lid = ext.source_lid;
    s.dest_lid = ext.dest_lid;
    s.source_gid = ext.source_gid;
    s.dest_gid = ext.dest_gid;
  }
  if (header.form & kHasConnection) {
    const auto ext = take<ConnectionExt>(at);
    s.access_key = ext.access_key;
    s.connection = ext.connection;
  }
  if (header.form & kHasSharedQueue) s.srqn = take<SharedQueueExt>(at).number & 0xffffff;
  return true;
}

}  // namespace verbatim::wire::shm
