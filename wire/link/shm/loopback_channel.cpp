// SPDX-License-Identifier: MIT
#include "wire/link/shm/loopback_channel.h"

#include "base/fault_copy.h"
#include "wire/link/shm/payloads.h"

namespace verbatim::wire::shm {

SendResult LoopbackChannel::send(const Segment& segment, const Piece* pieces, uint32_t count, bool,
                                 Segment* answer) {
  GatheredPayload payload(pieces, count);
  Segment unwanted;
  if (!answer) answer = &unwanted;
  const bool record = captured();
  if (record && !segment.has(kRepeated)) [[unlikely]]
    tap_->record(segment, pieces, count);
  if (!receiver_.on_segment(*this, segment, payload, answer)) return SendResult::kNoAnswer;
  // The answer to a read has no bytes here: the requester moves them, and notes it.
  if (record && answer->operation != Operation::kReadResponse) [[unlikely]]
    tap_->record(*answer, nullptr, 0);
  return SendResult::kAnswered;
}

void LoopbackChannel::note_answer(const Segment& answer, const Piece* pieces, uint32_t count) {
  if (captured()) tap_->record(answer, pieces, count);
}

uint32_t LoopbackChannel::enter_access() {
  const uint32_t side = prefix_.access_epoch.load(std::memory_order_relaxed) & 1;
  counters_.count[side].fetch_add(1, std::memory_order_seq_cst);
  return side;
}

void LoopbackChannel::leave_access(uint32_t ticket) {
  counters_.count[ticket].fetch_sub(1, std::memory_order_release);
}

bool LoopbackChannel::write_direct(uint64_t remote, const Piece* pieces, uint32_t count) {
  char* to = reinterpret_cast<char*>(remote);
  for (uint32_t i = 0; i < count; i++) {
    if (!fault_copy(to, pieces[i].base, pieces[i].length)) return false;
    to += pieces[i].length;
  }
  return true;
}

bool LoopbackChannel::read_direct(uint64_t remote, const Piece* pieces, uint32_t count) {
  const char* from = reinterpret_cast<const char*>(remote);
  for (uint32_t i = 0; i < count; i++) {
    if (!fault_copy(pieces[i].base, from, pieces[i].length)) return false;
    from += pieces[i].length;
  }
  return true;
}

}  // namespace verbatim::wire::shm
