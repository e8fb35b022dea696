// SPDX-License-Identifier: MIT
#include "wire/link/roce/conversion.h"

#include <algorithm>

namespace verbatim::wire {

namespace {

using On = roce::Operation;  // what packets say

constexpr uint8_t kSyndromeKind = 0x60, kSyndromeValue = 0x1f;
constexpr uint8_t kNakCodeMax = static_cast<uint8_t>(roce::NakCode::kRemoteOperational);

/// Whether the specification gives a syndrome a meaning for connected transports.
bool is_known(uint8_t syndrome) {
  switch (static_cast<roce::AckKind>(syndrome >> 5 & 3)) {
    case roce::AckKind::kAck:
    case roce::AckKind::kRnrNak:
      return syndrome < 0x80;
    case roce::AckKind::kNak:
      return syndrome < 0x80 && (syndrome & kSyndromeValue) <= kNakCodeMax;
    case roce::AckKind::kReserved:
      break;
  }
  return false;
}

constexpr uint32_t kPlacementMask = 0xf, kSelectivityShift = 4;  ///< of a flush in Segment::immediate

bool has_reth(Operation operation) {
  return operation == Operation::kWrite || operation == Operation::kReadRequest ||
         operation == Operation::kAtomicWrite || operation == Operation::kFlush;
}

/// The one of a row of opcodes that stands in this place.
On placed(On first, bool opens, bool ends, On only) {
  const auto number = static_cast<uint8_t>(first);
  if (opens) return ends ? only : first;
  return static_cast<On>(number + (ends ? 2 : 1));
}

On send_operation(const Segment& segment, bool opens, bool ends) {
  if (ends && segment.has(kImmediate)) return opens ? On::kSendOnlyImmediate : On::kSendLastImmediate;
  if (ends && segment.has(kInvalidate)) return opens ? On::kSendOnlyInvalidate : On::kSendLastInvalidate;
  return placed(On::kSendFirst, opens, ends, On::kSendOnly);
}

On write_operation(const Segment& segment, bool opens, bool ends) {
  if (ends && segment.has(kImmediate)) return opens ? On::kWriteOnlyImmediate : On::kWriteLastImmediate;
  return placed(On::kWriteFirst, opens, ends, On::kWriteOnly);
}

On operation_of(const Segment& segment, bool opens, bool ends) {
  switch (segment.operation) {
    case Operation::kSend:
      return send_operation(segment, opens, ends);
    case Operation::kWrite:
      return write_operation(segment, opens, ends);
    case Operation::kReadRequest:
      return On::kReadRequest;
    case Operation::kReadResponse:
      return placed(On::kReadResponseFirst, opens, ends, On::kReadResponseOnly);
    case Operation::kCompareSwap:
      return On::kCompareSwap;
    case Operation::kFetchAdd:
      return On::kFetchAdd;
    case Operation::kAtomicWrite:
      return On::kAtomicWrite;
    case Operation::kFlush:
      return On::kFlush;
    case Operation::kAtomicResponse:
      return On::kAtomicAcknowledge;
    case Operation::kDisconnect:
      return On::kDisconnect;
    case Operation::kAck:
    case Operation::kCongestion:
      break;
  }
  return On::kAcknowledge;
}

roce::Transport transport_of(Transport transport) {
  switch (transport) {
    case Transport::kUc:
      return roce::Transport::kUc;
    case Transport::kUd:
      return roce::Transport::kUd;
    case Transport::kXrc:
      return roce::Transport::kXrc;
    case Transport::kDc:
      return roce::Transport::kDc;
    case Transport::kRc:
      break;
  }
  return roce::Transport::kRc;
}

}  // namespace

PacketsOf::PacketsOf(const Segment& segment) : segment_(segment), obstacle_(find_obstacle()) {
  if (obstacle_) return;
  most_ = segment.transport == Transport::kUd ? kMessageBytesMax : segment.path_mtu;
  count_ = segment.length == 0 ? 1 : (segment.length - 1) / most_ + 1;
  fill();
}

const char* PacketsOf::find_obstacle() const {
  const Segment& s = segment_;
  const bool ends = s.operation == Operation::kDisconnect && s.transport != Transport::kDc;
  if (s.has(kPlaced) || s.has(kAcknowledges) || ends || s.path_mtu == 0)
    return "engines on one host say this to each other";
  if (s.operation == Operation::kAck && !is_known(s.syndrome))
    return "the syndrome has no form on an Ethernet wire";
  return nullptr;
}

// What all its packets have in common.
void PacketsOf::fill() {
  const Segment& s = segment_;
  roce::Bth& bth = headers_.bth;
  bth.migrated = !s.has(kMayMigrate);
  bth.pkey = s.pkey;
  bth.destination = s.dest_qpn;
  if (s.operation == Operation::kCongestion) bth.becn = true;
  if (s.transport == Transport::kDc) headers_.dceth = {s.access_key, s.connection, s.src_qpn, s.base_psn};
  if (s.transport == Transport::kUd) headers_.deth = {s.qkey, s.src_qpn};
  if (s.transport == Transport::kXrc) headers_.xrceth = {s.srqn};
  if (s.operation == Operation::kFlush)
    headers_.feth = {static_cast<uint8_t>(s.immediate >> kSelectivityShift),
                     static_cast<uint8_t>(s.immediate & kPlacementMask)};
  if (has_reth(s.operation)) headers_.reth = {s.remote_address, s.rkey, s.total_length};
  if (s.operation == Operation::kCompareSwap || s.operation == Operation::kFetchAdd)
    headers_.atomic = {s.remote_address, s.rkey, s.swap_or_add, s.compare};
  const uint8_t syndrome = s.operation == Operation::kAck ? s.syndrome : static_cast<uint8_t>(kAckOk);
  headers_.aeth = {static_cast<roce::AckKind>(syndrome >> 5), static_cast<uint8_t>(syndrome & kSyndromeValue),
                   s.msn};
  if (s.operation == Operation::kAtomicResponse) headers_.atomic_ack = {s.swap_or_add};
  headers_.immediate = {s.immediate};
  headers_.invalidate = {s.immediate};
}

bool PacketsOf::next() {
  if (index_ == count_) return false;
  const bool opens = index_ == 0 && segment_.has(kFirst);
  const bool final = index_ + 1 == count_;
  const bool ends = final && segment_.has(kLast);
  roce::Bth& bth = headers_.bth;
  bth.opcode = segment_.operation == Operation::kCongestion
                   ? roce::kCnp
                   : roce::opcode(transport_of(segment_.transport), operation_of(segment_, opens, ends));
  bth.psn = psn_add(segment_.psn, index_);
  bth.solicited = ends && segment_.has(kSolicited);
  bth.ack_request = final && segment_.has(kAckRequest);
  offset_ += bytes_;
  bytes_ = std::min(segment_.length - offset_, most_);
  index_++;
  return true;
}

namespace {

/// What an opcode is, apart from its place in the message.
bool read_operation(roce::Operation on, Segment& segment) {
  switch (on) {
    case On::kSendFirst:
    case On::kSendMiddle:
    case On::kSendLast:
    case On::kSendLastImmediate:
    case On::kSendOnly:
    case On::kSendOnlyImmediate:
    case On::kSendLastInvalidate:
    case On::kSendOnlyInvalidate:
      segment.operation = Operation::kSend;
      return true;
    case On::kWriteFirst:
    case On::kWriteMiddle:
    case On::kWriteLast:
    case On::kWriteLastImmediate:
    case On::kWriteOnly:
    case On::kWriteOnlyImmediate:
      segment.operation = Operation::kWrite;
      return true;
    case On::kReadRequest:
      segment.operation = Operation::kReadRequest;
      return true;
    case On::kReadResponseFirst:
    case On::kReadResponseMiddle:
    case On::kReadResponseLast:
    case On::kReadResponseOnly:
      segment.operation = Operation::kReadResponse;
      return true;
    case On::kAcknowledge:
      segment.operation = Operation::kAck;
      return true;
    case On::kAtomicAcknowledge:
      segment.operation = Operation::kAtomicResponse;
      return true;
    case On::kCompareSwap:
      segment.operation = Operation::kCompareSwap;
      return true;
    case On::kFetchAdd:
      segment.operation = Operation::kFetchAdd;
      return true;
    case On::kDisconnect:
      segment.operation = Operation::kDisconnect;
      return true;
    case On::kFlush:
      segment.operation = Operation::kFlush;
      return true;
    case On::kAtomicWrite:
      segment.operation = Operation::kAtomicWrite;
      return true;
  }
  return false;
}

bool read_transport(roce::Transport on, Segment& segment) {
  switch (on) {
    case roce::Transport::kRc:
      segment.transport = Transport::kRc;
      return true;
    case roce::Transport::kUc:
      segment.transport = Transport::kUc;
      return true;
    case roce::Transport::kUd:
      segment.transport = Transport::kUd;
      return true;
    case roce::Transport::kDc:
      segment.transport = Transport::kDc;
      return true;
    case roce::Transport::kXrc:
      segment.transport = Transport::kXrc;
      return true;
    case roce::Transport::kRd:
    case roce::Transport::kCnp:
      break;
  }
  return false;
}

uint16_t flags_of(const roce::Headers& headers) {
  const roce::OpcodeInfo& info = headers.info();
  uint32_t flags = 0;
  if (info.place == roce::Place::kFirst || info.place == roce::Place::kOnly) flags |= kFirst;
  if (info.place == roce::Place::kLast || info.place == roce::Place::kOnly) flags |= kLast;
  if (headers.bth.solicited) flags |= kSolicited;
  if (!headers.bth.migrated) flags |= kMayMigrate;
  if (headers.bth.ack_request) flags |= kAckRequest;
  if (headers.has(roce::kImmDt)) flags |= kImmediate;
  if (headers.has(roce::kIeth)) flags |= kInvalidate;
  return static_cast<uint16_t>(flags);
}

bool read_extensions(const roce::Headers& headers, Segment& segment) {
  segment.syndrome = kAckOk;
  if (headers.has(roce::kAeth)) {
    segment.syndrome = static_cast<uint8_t>((static_cast<uint8_t>(headers.aeth.kind) << 5 & kSyndromeKind) |
                                            headers.aeth.value);
    segment.msn = headers.aeth.msn;
    if (!is_known(segment.syndrome)) return false;
  }
  if (headers.has(roce::kDcEth)) {
    segment.access_key = headers.dceth.access_key;
    segment.connection = headers.dceth.connection;
    segment.src_qpn = headers.dceth.source;
    segment.base_psn = headers.dceth.opening;
    if (headers.info().request) segment.flags |= kOpens;
  }
  if (headers.has(roce::kDeth)) {
    segment.qkey = headers.deth.qkey;
    segment.src_qpn = headers.deth.source;
  }
  if (headers.has(roce::kXrcEth)) segment.srqn = headers.xrceth.srqn;
  if (headers.has(roce::kFeth))
    segment.immediate = static_cast<uint32_t>(headers.feth.selectivity) << kSelectivityShift |
                        (headers.feth.placement & kPlacementMask);
  if (headers.has(roce::kReth)) {
    segment.remote_address = headers.reth.address;
    segment.rkey = headers.reth.rkey;
    segment.total_length = headers.reth.length;
  }
  if (headers.has(roce::kAtomicEth)) {
    segment.remote_address = headers.atomic.address;
    segment.rkey = headers.atomic.rkey;
    segment.swap_or_add = headers.atomic.swap_or_add;
    segment.compare = headers.atomic.compare;
    segment.total_length = 8;
  }
  if (headers.has(roce::kAtomicAckEth)) segment.swap_or_add = headers.atomic_ack.original;
  if (headers.has(roce::kImmDt)) segment.immediate = headers.immediate.data;
  if (headers.has(roce::kIeth)) segment.immediate = headers.invalidate.rkey;
  return true;
}

}  // namespace

bool segment_of(const roce::Packet& packet, Segment& segment) {
  const roce::Headers& headers = packet.headers;
  const bool congestion = headers.bth.opcode == roce::kCnp;
  if (congestion) {
    segment.operation = Operation::kCongestion;
    segment.transport = Transport::kRc;
  } else if (!read_transport(roce::transport_of(headers.bth.opcode), segment) ||
             !read_operation(roce::operation_of(headers.bth.opcode), segment)) {
    return false;
  }
  segment.flags = flags_of(headers);
  segment.service_level = 0;
  segment.pkey = headers.bth.pkey;
  segment.dest_qpn = headers.bth.destination;
  segment.src_qpn = kUnknownQpn;
  segment.psn = segment.base_psn = headers.bth.psn;
  segment.packets = 1;
  segment.length = congestion ? 0 : static_cast<uint32_t>(packet.payload.size());
  segment.total_length = segment.length;
  segment.immediate = segment.ack_psn = segment.msn = 0;
  segment.has_grh = true;
  return read_extensions(headers, segment);
}

}  // namespace verbatim::wire
