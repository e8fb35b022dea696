// SPDX-License-Identifier: MIT
// Messages whose local memory is more than a few pieces: elements that name indirect keys. Pieces are taken a
// window at a time; where they are too small for a segment, or the bytes are made on the way, they go through
// a buffer.
#include <algorithm>

#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

namespace {
constexpr uint32_t kStageBytes = 8192;  ///< of the buffer; whole packets of any path MTU
constexpr uint32_t kPacketMax = 4096;
}  // namespace

Elements Requester::memory_of(const Message& message) const {
  const SendWork& work = message.work;
  const uint32_t need = brings_data(work.opcode) ? static_cast<uint32_t>(kLocalWrite) : 0u;
  return {engine_.keys(), qp_.spec().domain, need,        work.sges, work.sge_count,
          &key_errors_,   work.inline_mask,  qp_.number()};
}

Requester::Step Requester::send_scattered(Message& message, uint32_t most) {
  const uint32_t left = message.length - sent_bytes_;
  const bool may_pull = reliable_ && !is_wire_;
  const Elements memory = memory_of(message);
  const auto fail = [&](const char* why) {
    return fail_local(message.index, message.next_index, message.work, Status::kLocalProtection, why);
  };
  Window window;
  if (const char* why = memory.window(sent_bytes_, std::min(most, channel_->payload_max(may_pull)), window))
    return fail(why);
  // All segments but the last end where a packet does.
  auto chunk = static_cast<uint32_t>(window.bytes);
  if (chunk < left) chunk -= chunk % kPacketMax;
  const uint32_t staged = std::min({most, channel_->payload_max(false), kStageBytes});
  if (chunk >= staged) {
    window.cut(chunk);
    return submit(message, chunk, window.pieces, window.count, may_pull);
  }
  std::byte buffer[kStageBytes];
  if (const char* why = memory.load(sent_bytes_, buffer, staged)) return fail(why);
  const wire::Piece piece{buffer, staged};
  return submit(message, staged, &piece, 1, false);
}

// A datagram is one segment: as pieces, or as one in the buffer, which has room for any.
const char* Requester::gather_datagram(const Message& message, Window& window, uint8_t* buffer) const {
  const Elements memory = memory_of(message);
  if (const char* why = memory.window(0, message.length, window)) return why;
  if (window.bytes == message.length) return nullptr;
  if (const char* why = memory.load(0, buffer, message.length)) return why;
  window.count = 1;
  window.pieces[0] = {buffer, message.length};
  return nullptr;
}

// The peer's memory is one piece: direct access goes on for as many windows as this end needs.
bool Requester::move_scattered(const Message& message, uint64_t address) {
  const Elements memory = memory_of(message);
  const bool read = message.work.opcode == Opcode::kRead;
  Window window;
  for (uint64_t done = 0; done < message.length; done += window.bytes) {
    if (memory.window(done, message.length - done, window) || window.bytes == 0) return false;
    if (!(read ? channel_->read_direct(address + done, window.pieces, window.count)
               : channel_->write_direct(address + done, window.pieces, window.count)))
      return false;
  }
  return true;
}

// Puts bytes of a read's response into the memory of its work request.
bool Requester::place_response(const Message& message, uint64_t offset, uint64_t length,
                               wire::Payload& payload) {
  if (!message.scattered) [[likely]] {
    wire::Piece pieces[kSgeMax];
    const uint32_t count = slice(message.pieces, message.count, offset, length, pieces);
    return payload.copy_to(0, pieces, count) == wire::CopyResult::kDone;
  }
  const Elements memory = memory_of(message);
  Window window;
  std::byte buffer[kStageBytes];
  for (uint64_t done = 0; done < length; done += window.bytes) {
    if (memory.window(offset + done, length - done, window)) return false;
    if (window.bytes > 0) {
      if (payload.copy_to(done, window.pieces, window.count) != wire::CopyResult::kDone) return false;
      continue;
    }
    window.bytes = std::min<uint64_t>(length - done, kStageBytes);
    const wire::Piece piece{buffer, window.bytes};
    const bool last = offset + done + window.bytes == message.length;
    if (payload.copy_to(done, &piece, 1) != wire::CopyResult::kDone ||
        memory.store(offset + done, buffer, window.bytes, last))
      return false;
  }
  return true;
}

// The responder in this process has allowed a read that was not a matter of one piece: both ends' keys are at
// hand.
bool Requester::read_within_process(const Message& message, const wire::Segment& answer) {
  QueuePair* peer = engine_.find(peer_.place.qpn);
  if (!peer) return false;
  uint32_t domain = peer->spec().domain;
  if (xrc_) {
    SharedQueue queue;
    if (!engine_.shared_queues().find(message.work.destination.srqn, queue)) return false;
    domain = queue.landing.domain;
  }
  const KeyTable& keys = engine_.keys();
  const Elements memory = memory_of(message);
  std::byte buffer[kStageBytes];
  const bool captured = engine_.fabric().captured();
  if (captured && message.length == 0) note_response(answer, 0, buffer, 0, 0);
  for (uint64_t done = 0; done < message.length;) {
    const uint64_t bytes = std::min<uint64_t>(message.length - done, kStageBytes);
    const bool last = done + bytes == message.length;
    if (keys.load(message.work.rkey, domain, kRemoteRead, message.work.remote_address + done, buffer, bytes,
                  peer->spec().sink, peer_.place.qpn) ||
        memory.store(done, buffer, bytes, last))
      return false;
    if (captured) [[unlikely]]
      note_response(answer, done, buffer, bytes, message.length);
    done += bytes;
  }
  return true;
}

// A part of a read's answer, which is whole packets, as the segment that it would be.
void Requester::note_response(const wire::Segment& answer, uint64_t done, void* bytes, uint64_t count,
                              uint64_t total) const {
  const uint32_t mtu = qp_.attributes().path_mtu;
  wire::Segment part = answer;
  part.flags &= static_cast<uint16_t>(~(wire::kFirst | wire::kLast));
  if (done == 0) part.flags |= wire::kFirst;
  if (done + count == total) part.flags |= wire::kLast;
  part.psn = wire::psn_add(answer.psn, static_cast<uint32_t>(done / mtu));
  part.length = static_cast<uint32_t>(count);
  part.packets = packets_of(part.length, mtu);
  const wire::Piece piece{bytes, count};
  channel_->note_answer(part, &piece, 1);
}

}  // namespace verbatim::engine
