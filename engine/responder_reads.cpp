// SPDX-License-Identifier: MIT
// The responder's reads, atomics and datagrams, and the answers that leave at the end of a drain.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/fault_copy.h"
#include "engine/engine.h"
#include "engine/grh.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::CopyResult;
using wire::Operation;
using wire::Segment;
using wire::SendResult;

namespace {
constexpr size_t kResponsesMax = 256;  ///< more than any peer may have outstanding
}

Responder::Verdict Responder::read_request(const Segment& segment) {
  if (!(qp_.attributes().access & kRemoteRead))
    return refuse(wire::kNakRemoteAccess, "the queue pair does not allow remote reads");
  if (qp_.attributes().max_dest_rd_atomic == 0 || responses_.size() >= kResponsesMax)
    return refuse(wire::kNakInvalidRequest, "more reads than max_dest_rd_atomic allows");
  if (segment.total_length > 0) {
    wire::Piece piece;
    if (const char* why = engine_.keys().translate(segment.rkey, qp_.spec().domain, kRemoteRead,
                                                   segment.remote_address, segment.total_length, piece))
      return refuse(wire::kNakRemoteAccess, why);
  }
  responses_.push_back({Operation::kReadResponse, segment.psn, segment.packets, segment.rkey,
                        segment.total_length, 0, segment.remote_address, 0});
  return Verdict::kDone;
}

Responder::Verdict Responder::atomic(const Segment& segment) {
  if (!(qp_.attributes().access & kRemoteAtomic))
    return refuse(wire::kNakRemoteAccess, "the queue pair does not allow remote atomics");
  if (segment.remote_address % 8 != 0)
    return refuse(wire::kNakInvalidRequest, "the address of an atomic is not a multiple of 8");
  if (qp_.attributes().max_dest_rd_atomic == 0 || responses_.size() >= kResponsesMax)
    return refuse(wire::kNakInvalidRequest, "more atomics than max_dest_rd_atomic allows");
  wire::Piece piece;
  if (const char* why = engine_.keys().translate(segment.rkey, qp_.spec().domain, kRemoteAtomic,
                                                 segment.remote_address, 8, piece))
    return refuse(wire::kNakRemoteAccess, why);
  auto* word = static_cast<uint64_t*>(piece.base);
  if (reinterpret_cast<uintptr_t>(word) % 8 != 0)
    return refuse(wire::kNakInvalidRequest, "the memory of an atomic is not aligned to 8 bytes");
  uint64_t original = 0;
  const bool done = segment.operation == Operation::kFetchAdd
                        ? fault_fetch_add(word, segment.swap_or_add, &original)
                        : fault_compare_swap(word, segment.compare, segment.swap_or_add, &original);
  if (!done) return refuse(wire::kNakRemoteAccess, "the memory of an atomic is not mapped");
  count_message(8);
  responses_.push_back({Operation::kAtomicResponse, segment.psn, 1, 0, 0, 0, 0, original});
  return Verdict::kDone;
}

bool Responder::answer_datagram(const Segment& segment, wire::Payload& payload) {
  if (segment.qkey != qp_.attributes().qkey) return false;
  message_ = Progress{};
  if (take_work(false) != Verdict::kDone) return false;
  const uint32_t bytes = kGrhBytes + segment.length;
  if (work_->capacity() < bytes) {
    receive_error(Status::kLocalLength, "the datagram and its 40 bytes of GRH do not fit the receive request",
                  0);
    return false;
  }
  wire::Piece pieces[kSgeMax];
  uint32_t count = 0;
  uint8_t grh[kGrhBytes];
  write_grh(segment, grh);
  const char* why = scatter(0, kGrhBytes, pieces, count);
  const uint8_t* from = grh;
  for (uint32_t i = 0; !why && i < count; i++) {
    if (!fault_copy(pieces[i].base, from, pieces[i].length))
      why = "memory of the receive request is not mapped";
    from += pieces[i].length;
  }
  if (!why) why = scatter(kGrhBytes, segment.length, pieces, count);
  if (!why && segment.length > 0 && payload.copy_to(0, pieces, count) != CopyResult::kDone)
    why = "memory of the receive request is not mapped";
  if (why) {
    receive_error(Status::kLocalProtection, why, 0);
    return false;
  }
  complete_receive(segment, segment.has(wire::kImmediate) ? Opcode::kSendImmediate : Opcode::kSend, bytes);
  message_ = Progress{};
  return true;
}

// One response, in as many segments as the channel wants. False: no room, go on later.
bool Responder::send_response(Response& response) {
  for (;;) {
    const uint32_t most = reply_channel_->payload_max(false);
    const uint32_t chunk = std::min(response.length - response.sent, most);
    const uint32_t mtu = qp_.attributes().path_mtu;
    Segment segment = reply_to(wire::psn_add(response.psn, response.sent / mtu), wire::kAckOk);
    const bool last = response.sent + chunk == response.length;
    segment.operation = response.operation;
    segment.flags = (response.sent == 0 ? wire::kFirst : 0) | (last ? wire::kLast : 0);
    segment.packets = packets_of(chunk, mtu);
    segment.length = chunk;
    segment.swap_or_add = response.original;
    wire::Piece piece{nullptr, 0};
    const char* why = nullptr;
    if (chunk > 0) {
      why = engine_.keys().translate(response.rkey, qp_.spec().domain, kRemoteRead, response.address,
                                     response.length, piece);
      piece = {static_cast<char*>(piece.base) + response.sent, chunk};
    }
    const SendResult result = why ? SendResult::kSourceFault
                                  : reply_channel_->send(segment, &piece, chunk > 0 ? 1 : 0, false, nullptr);
    if (result == SendResult::kBusy) return false;
    if (result == SendResult::kSourceFault) {
      const uint32_t psn = response.psn;  // `response` goes with the others
      refuse(wire::kNakRemoteAccess, why ? why : "the memory that was to be read is not mapped");
      ack_due_ = false;  // this refusal is about the read, not about what came last
      responses_.clear();
      reply_channel_->send(reply_to(psn, wire::kNakRemoteAccess), nullptr, 0, false, nullptr);
      return true;
    }
    response.sent += chunk;
    if (last || result != SendResult::kAccepted) return true;
  }
}

bool Responder::take_acknowledgement(uint32_t& psn) {
  std::lock_guard<SpinLock> hold(lock_);
  if (!ack_due_ || (due_syndrome_ & 0x60) != 0 || !responses_.empty()) return false;
  psn = wire::psn_add(expected_psn_, wire::kPsnMask);
  ack_due_ = false;
  may_owe_.store(false, std::memory_order_relaxed);
  return true;
}

void Responder::give_back_acknowledgement() {
  std::lock_guard<SpinLock> hold(lock_);
  if (ack_due_) return;
  ack_due_ = true;
  due_syndrome_ = wire::kAckOk;
  may_owe_.store(true, std::memory_order_relaxed);
}

bool Responder::send_owed() {
  AccessScope scope;
  std::lock_guard<SpinLock> hold(lock_);
  owing = false;
  if (!reply_channel_) return true;
  while (!responses_.empty()) {
    if (!send_response(responses_.front())) return false;
    if (responses_.empty()) break;  // a refusal dropped them all
    if (responses_.front().operation == Operation::kReadResponse) count_message(responses_.front().length);
    responses_.pop_front();
  }
  if (!ack_due_) {
    may_owe_.store(false, std::memory_order_relaxed);
    return true;
  }
  const bool positive = (due_syndrome_ & 0x60) == 0;
  const Segment reply =
      reply_to(positive ? wire::psn_add(expected_psn_, wire::kPsnMask) : due_psn_, due_syndrome_);
  if (reply_channel_->send(reply, nullptr, 0, false, nullptr) == SendResult::kBusy) return false;
  ack_due_ = false;
  may_owe_.store(false, std::memory_order_relaxed);
  return true;
}

}  // namespace verbatim::engine
