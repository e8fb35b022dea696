// SPDX-License-Identifier: MIT
// The responder's reads, atomics and datagrams, and the answers that leave at the end of a drain.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/fault_copy.h"
#include "engine/elements.h"
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
constexpr uint32_t kStageBytes = 8192;  ///< whole packets of any path MTU
}  // namespace

Responder::Verdict Responder::refuse_read(uint8_t syndrome, const char* why) {
  if (qp_.is_told_of(kRemoteRead)) qp_.spec().sink->on_remote(Opcode::kRead, false, 0);
  return refuse(syndrome, why);
}

Responder::Verdict Responder::read_request(const Segment& segment) {
  if (!(qp_.attributes().access & kRemoteRead))
    return refuse_read(wire::kNakRemoteAccess, "the queue pair does not allow remote reads");
  if (const char* why = no_room_for_response()) return refuse_read(wire::kNakInvalidRequest, why);
  if (segment.total_length > 0) {
    wire::Piece piece;
    if (const char* why =
            engine_.keys().translate(segment.rkey, landing_.domain, kRemoteRead, segment.remote_address,
                                     segment.total_length, piece, qp_.number()))
      return refuse_read(wire::kNakRemoteAccess, why);
  }
  responses_.push_back({Operation::kReadResponse, segment.psn,
                        packets_of(segment.total_length, qp_.attributes().path_mtu), segment.rkey,
                        segment.total_length, 0, segment.remote_address, 0, wire::psn_add(msn_, 1),
                        landing_.domain});
  responses_.back().told = qp_.is_told_of(kRemoteRead);
  return Verdict::kDone;
}

Responder::Verdict Responder::atomic(const Segment& segment) {
  if (!(qp_.attributes().access & kRemoteAtomic))
    return refuse(wire::kNakRemoteAccess, "the queue pair does not allow remote atomics");
  if (segment.remote_address % 8 != 0)
    return refuse(wire::kNakInvalidRequest, "the address of an atomic is not a multiple of 8");
  if (const char* why = no_room_for_response()) return refuse(wire::kNakInvalidRequest, why);
  wire::Piece piece;
  if (const char* why = engine_.keys().translate(segment.rkey, landing_.domain, kRemoteAtomic,
                                                 segment.remote_address, 8, piece, qp_.number()))
    return refuse(wire::kNakRemoteAccess, why);
  if (piece.length != 8)
    return refuse(wire::kNakRemoteAccess,
                  "the memory of an atomic is not one piece of what its key stands for");
  if (!settle_responses()) return Verdict::kRefused;
  auto* word = static_cast<uint64_t*>(piece.base);
  if (reinterpret_cast<uintptr_t>(word) % 8 != 0)
    return refuse(wire::kNakInvalidRequest, "the memory of an atomic is not aligned to 8 bytes");
  uint64_t original = 0;
  const bool done = segment.operation == Operation::kFetchAdd
                        ? fault_fetch_add(word, segment.swap_or_add, &original)
                        : fault_compare_swap(word, segment.compare, segment.swap_or_add, &original);
  if (!done) return refuse(wire::kNakRemoteAccess, "the memory of an atomic is not mapped");
  count_message(8);
  responses_.push_back(
      {Operation::kAtomicResponse, segment.psn, 1, 0, 0, 0, 0, original, wire::psn_add(msn_, 1), 0});
  if (is_wire_ || is_guest_) remember_atomic(segment.psn, original);
  return Verdict::kDone;
}

// Puts the bytes of a segment, those before `from` left out, `offset` bytes into that memory. A refusal of
// the key, or `result`.
const char* Responder::place(const Elements& memory, uint64_t offset, const Segment& segment,
                             wire::Payload& payload, CopyResult& result, uint64_t from) const {
  Window window;
  offset -= from;
  for (uint64_t done = from; done < segment.length && result == CopyResult::kDone; done += window.bytes) {
    if (const char* why = memory.window(offset + done, segment.length - done, window)) return why;
    if (window.bytes > 0) [[likely]] {
      result = payload.copy_to(done, window.pieces, window.count);
      continue;
    }
    std::byte buffer[kStageBytes];
    window.bytes = std::min<uint64_t>(segment.length - done, kStageBytes);
    const wire::Piece piece{buffer, window.bytes};
    const bool last = segment.has(wire::kLast) && done + window.bytes == segment.length;
    result = payload.copy_to(done, &piece, 1);
    if (result != CopyResult::kDone) break;
    if (const char* why = memory.store(offset + done, buffer, window.bytes, last)) return why;
  }
  return nullptr;
}

bool Responder::answer_datagram(const Segment& segment, wire::Payload& payload) {
  if (!is_for(*qp_.spec().port, segment)) return false;
  if (qp_.drops_foreign(segment)) return false;
  count_arrived(segment);
  if (segment.qkey != qp_.attributes().qkey) return false;
  message_ = Progress{};
  if (take_work(false) != Verdict::kDone) return false;
  const uint32_t bytes = kGrhBytes + segment.length;
  if (work_->capacity() < bytes) {
    receive_error(Status::kLocalLength, "the datagram and its 40 bytes of GRH do not fit the receive request",
                  0);
    return false;
  }
  const Elements memory = receive_memory();
  CopyResult result = CopyResult::kDone;
  const char* why = nullptr;
  if (segment.has_grh) {  // without one its place is left as it is
    uint8_t grh[kGrhBytes];
    write_grh(segment, grh);
    why = memory.store(0, grh, kGrhBytes, segment.length == 0);
  }
  if (!why) why = place(memory, kGrhBytes, segment, payload, result);
  if (!why && result != CopyResult::kDone) why = "memory of the receive request is not mapped";
  if (why) {
    receive_error(Status::kLocalProtection, why, 0);
    return false;
  }
  complete_receive(segment, segment.has(wire::kImmediate) ? Opcode::kSendImmediate : Opcode::kSend, bytes);
  message_ = Progress{};
  return true;
}

// The memory of the next `chunk` bytes of a response; fewer where they have to go through the buffer.
const char* Responder::gather(const Response& response, uint32_t& chunk, Window& window,
                              std::byte* buffer) const {
  if (response.relayed) [[unlikely]] {
    window.count = 1;
    window.pieces[0] = {response.bytes.get() + response.sent, chunk};
    return nullptr;
  }
  wire::Piece piece;
  if (const char* why = engine_.keys().translate(response.rkey, response.domain, kRemoteRead,
                                                 response.address, response.length, piece, qp_.number()))
    return why;
  if (piece.length == response.length) [[likely]] {
    window.count = 1;
    window.pieces[0] = {static_cast<char*>(piece.base) + response.sent, chunk};
    return nullptr;
  }
  const Sge whole{response.address, response.length, response.rkey};
  const Elements memory(engine_.keys(), response.domain, kRemoteRead, &whole, 1, qp_.spec().sink, 0,
                        qp_.number());
  if (const char* why = memory.window(response.sent, chunk, window)) return why;
  if (window.bytes == chunk) return nullptr;
  chunk = std::min(chunk, kStageBytes);
  if (const char* why = memory.load(response.sent, buffer, chunk)) return why;
  window.count = 1;
  window.pieces[0] = {buffer, chunk};
  return nullptr;
}

// One response, in as many segments as the channel wants. False: no room, go on later.
bool Responder::send_response(Response& response) {
  for (;;) {
    const uint32_t most = reply_channel_->payload_max(false);
    uint32_t chunk = std::min(response.length - response.sent, most);
    Window window;
    std::byte buffer[kStageBytes];
    const char* why = chunk > 0 ? gather(response, chunk, window, buffer) : nullptr;
    const uint32_t mtu = qp_.attributes().path_mtu;
    Segment segment = reply_to(wire::psn_add(response.psn, response.sent / mtu), wire::kAckOk);
    const bool last = response.sent + chunk == response.length;
    segment.operation = response.operation;
    segment.msn = response.msn;
    uint32_t place = 0;
    if (response.sent == 0) place |= wire::kFirst;
    if (last) place |= wire::kLast;
    if (response.relayed) [[unlikely]]
      place &= response.flags;
    constexpr uint32_t kPlaces = wire::kFirst | wire::kLast;
    segment.flags = static_cast<uint16_t>((segment.flags & ~kPlaces) | place);
    segment.packets = packets_of(chunk, mtu);
    segment.length = chunk;
    segment.swap_or_add = response.original;
    const SendResult result =
        why ? SendResult::kSourceFault
            : reply_channel_->send(segment, window.pieces, chunk > 0 ? window.count : 0, false, nullptr);
    if (result == SendResult::kBusy) return false;
    if (result == SendResult::kSourceFault) {
      if (response.again) return true;
      tell_of_read(response, false);
      const uint32_t psn = response.psn;  // `response` goes with the others
      refuse(wire::kNakRemoteAccess, why ? why : "the memory that was to be read is not mapped");
      ack_due_ = false;  // this refusal is about the read, not about what came last
      responses_.clear();
      reply_channel_->send(reply_to(psn, wire::kNakRemoteAccess), nullptr, 0, false, nullptr);
      return true;
    }
    if (is_wire_) count_answered(segment);
    response.sent += chunk;
    if (last || result != SendResult::kAccepted) return true;
  }
}

bool Responder::take_acknowledgement(uint32_t& psn, uint32_t& msn) {
  std::lock_guard<SpinLock> hold(lock_);
  if (!ack_due_ || (due_syndrome_ & 0x60) != 0 || !responses_.empty()) return false;
  psn = last_taken();
  msn = msn_;
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

// With the lock held. False: no room.
bool Responder::send_responses() {
  while (!responses_.empty()) {
    if (!send_response(responses_.front())) return false;
    if (responses_.empty()) break;  // a refusal dropped them all
    tell_of_read(responses_.front(), true);
    if (responses_.front().operation == Operation::kReadResponse) count_message(responses_.front().length);
    responses_.pop_front();
  }
  return true;
}

bool Responder::send_owed(bool listed) {
  AccessScope scope;
  std::lock_guard<SpinLock> hold(lock_);
  if (!reply_channel_) return true;
  if (listed && is_wire_) leaving_.store(true, std::memory_order_relaxed);
  if (!send_responses()) return false;
  if (!ack_due_) {
    may_owe_.store(false, std::memory_order_relaxed);
    return true;
  }
  habit_.on_alone(engine_.looks(), habit_.expects_answer());
  left_alone_.store(true, std::memory_order_relaxed);
  return send_acknowledgement();
}

// Or the refusal. False: no room.
bool Responder::send_acknowledgement() {
  const bool positive = (due_syndrome_ & 0x60) == 0;
  const Segment reply = reply_to(positive ? last_taken() : due_psn_, due_syndrome_);
  if (reply_channel_->send(reply, nullptr, 0, false, nullptr) == SendResult::kBusy) return false;
  if (is_wire_) count_answered(reply);
  ack_due_ = false;
  may_owe_.store(leaving_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return true;
}

void Responder::note_left() {
  std::lock_guard<SpinLock> hold(lock_);
  owing = false;
  if (!leaving_.load(std::memory_order_relaxed)) return;
  may_owe_.store(ack_due_ || !responses_.empty(), std::memory_order_relaxed);
  leaving_.store(false, std::memory_order_release);
}

}  // namespace verbatim::engine
