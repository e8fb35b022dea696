// SPDX-License-Identifier: MIT
// Sending Ethernet frames: one for a request, or one for each part of a large send.
#include <algorithm>
#include <cstring>

#include "base/fault_copy.h"
#include "engine/elements.h"
#include "engine/engine.h"
#include "engine/frame_checksums.h"
#include "engine/frame_segments.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::SendResult;

namespace {

constexpr uint32_t kSegmentsPerStep = 64;
constexpr uint32_t kAddressBytes = 12, kTagBytes = 4;

/// Returns the frame's new length.
uint32_t insert_tag(uint8_t* frame, uint32_t bytes, uint16_t vlan) {
  uint8_t* at = frame + kAddressBytes;
  std::memmove(at + kTagBytes, at, bytes - kAddressBytes);
  const uint8_t tag[kTagBytes] = {0x81, 0x00, static_cast<uint8_t>(vlan >> 8), static_cast<uint8_t>(vlan)};
  std::memcpy(at, tag, kTagBytes);
  return bytes + kTagBytes;
}

}  // namespace

// Copies the frame together where it has to be one piece, or is going to change.
const char* Requester::stage_frame(const Message& message, bool whole, Window& window,
                                   uint8_t* buffer) const {
  if (message.scattered) {
    if (const char* why = gather_datagram(message, window, buffer)) return why;
  } else {
    window.count = message.count;
    std::copy_n(message.pieces, message.count, window.pieces);
  }
  if (!whole) return nullptr;
  uint8_t* to = buffer;
  for (uint32_t i = 0; i < window.count; to += window.pieces[i].length, i++)
    if (window.pieces[i].base != to && !fault_copy(to, window.pieces[i].base, window.pieces[i].length))
      return "memory of the work request is not mapped";
  window.count = 1;
  window.pieces[0] = {buffer, message.length};
  return nullptr;
}

// What rules for frames that leave make of it. False: it goes nowhere.
bool Requester::let_out(uint8_t* frame, uint32_t& bytes) const {
  const Steering& steering = engine_.steering();
  if (!steering.watches_exit()) return true;
  const Steering::Exit exit = steering.match_exit(parse_frame(frame, bytes).headers, bytes);
  if (exit.dropped) return false;
  if (exit.action) bytes = exit.action->apply(frame, bytes, kFrameBytesMax);
  return bytes >= kFrameBytesMin;
}

Requester::Step Requester::after_frame(SendResult result, Message& message, uint32_t room) {
  if (result == SendResult::kSourceFault)
    return fail_local(message.index, message.next_index, message.work, Status::kLocalProtection,
                      "memory of the work request is not mapped");
  if (result == SendResult::kBusy) {
    engine_.wait_for_room(qp_, room);
    return Step::kStop;
  }
  charge(message.length);
  return after_message(message);
}

Requester::Step Requester::send_frame(Message& message) {
  const auto fail = [&](Status status, const char* why) {
    return fail_local(message.index, message.next_index, message.work, status, why);
  };
  if (message.length < kFrameBytesMin)
    return fail(Status::kLocalLength, "the frame is shorter than an Ethernet header of 14 bytes");
  Window window;
  uint8_t buffer[kFrameBytesMax];
  const uint8_t checksums = message.work.checksums;
  const bool tags = message.work.inserts_vlan;
  const bool whole = checksums != 0 || tags || engine_.steering().watches_exit();
  if (tags && message.length > kFrameBytesMax - kTagBytes)
    return fail(Status::kLocalLength, "the frame has no room for a VLAN tag");
  if (const char* why = stage_frame(message, whole, window, buffer))
    return fail(Status::kLocalProtection, why);
  uint32_t bytes = message.length;
  if (tags) bytes = insert_tag(buffer, bytes, message.work.vlan);
  if (checksums != 0) write_checksums(buffer, bytes, checksums);
  if (whole && !let_out(buffer, bytes)) return after_message(message);
  if (whole) window.pieces[0].length = bytes;
  const uint32_t room = engine_.room_epoch();
  return after_frame(engine_.spread_frame(*qp_.spec().port, qp_.number(), window.pieces, window.count, bytes),
                     message, room);
}

// A few frames of it; the next step goes on behind them.
Requester::Step Requester::send_segments(Message& message) {
  const auto fail = [&](Status status, const char* why) {
    return fail_local(message.index, message.next_index, message.work, status, why);
  };
  const uint32_t head = message.work.header_bytes, most = message.work.segment_bytes;
  if (head < kFrameBytesMin || head > message.length || most == 0 || head + most > kFrameBytesMax)
    return fail(Status::kLocalLength, "headers and segment size make no frames of 14 to 8192 bytes");
  const Elements memory = memory_of(message);
  uint8_t frame[kFrameBytesMax];
  const uint32_t payload = message.length - head;
  in_message_ = true;
  begun_opcode_ = message.work.opcode;
  begun_bytes_ = message.length;
  for (uint32_t left = rate_limit_ ? 1 : kSegmentsPerStep; left > 0; left--) {
    const uint32_t part = std::min(most, payload - sent_bytes_);
    uint32_t bytes = head + part;
    const char* why = memory.load(0, frame, head);
    if (why == nullptr && part > 0) why = memory.load(head + sent_bytes_, frame + head, part);
    if (why != nullptr) return fail(Status::kLocalProtection, why);
    const bool last = sent_bytes_ + part == payload;
    number_segment(frame, bytes, {head, sent_bytes_ / most, sent_bytes_, last});
    if (message.work.checksums != 0) write_checksums(frame, bytes, message.work.checksums);
    if (let_out(frame, bytes)) {
      const wire::Piece piece{frame, bytes};
      const uint32_t room = engine_.room_epoch();
      if (engine_.spread_frame(*qp_.spec().port, qp_.number(), &piece, 1, bytes) == SendResult::kBusy) {
        engine_.wait_for_room(qp_, room);
        return Step::kStop;
      }
    }
    charge(bytes);
    if (last) return after_message(message);
    sent_bytes_ += part;
  }
  budget_bytes_ -= std::min<uint64_t>(budget_bytes_, uint64_t{kSegmentsPerStep} * most);
  return Step::kAgain;
}

}  // namespace verbatim::engine
