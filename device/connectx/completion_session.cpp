// SPDX-License-Identifier: MIT
// Completions that are told together, where the program asked for it: receives of one queue pair that arrive
// in one run and use receive requests in order. See MiniCqe for what they look like.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "device/connectx/completion_ring.h"

namespace verbatim::connectx {

// With the lock held. True: it is held back.
bool CompletionRing::gather(const Received& received) {
  if (received.cqe_opcode != kCqeSend || received.solicited || received.head) return false;
  if (session_ && session_->goes_on_with(received)) {
    session_->bytes[session_->count++] = received.bytes;
    return true;
  }
  tell_session();
  if (!engine::Gathering::hold(*this)) return false;
  if (!session_) session_ = std::make_unique<Session>();
  session_->count = 1;
  session_->first = received;
  session_->time = timestamp();
  session_->bytes[0] = received.bytes;
  return true;
}

void CompletionRing::settle() {
  std::lock_guard<SpinLock> hold(lock_);
  tell_session();
}

// With the lock held.
void CompletionRing::tell_held_back() {
  const uint32_t unread = (produced_ - record(0)) & kCqIndexMask;
  if (session_->count > 1 && unread + session_->count <= ring_.entries) {
    write_session();
  } else {
    Received each = session_->first;
    for (uint32_t i = 0; i < session_->count; i++, each.counter++) {
      each.bytes = session_->bytes[i];
      write_receive(each, session_->time);
    }
  }
  session_->count = 0;
}

// With the lock held; there is room. The title comes last: it says that all of it is there.
void CompletionRing::write_session() {
  const Session& told = *session_;
  for (uint32_t first = 0; first < told.count; first += kMinisPerEntry) {
    MiniCqe minis[kMinisPerEntry] = {};
    for (uint32_t i = 0; i < std::min(kMinisPerEntry, told.count - first); i++)
      minis[i].byte_count = told.bytes[first + i];
    std::memcpy(entry(produced_ + std::max(first, 1u)), minis, sizeof minis);
  }
  Cqe title{};
  title.flags_rqpn = told.first.flags_rqpn;
  title.frame = told.first.frame;
  title.user_index = told.first.user_index;
  title.immediate = Be32::from_raw(told.first.immediate_raw);
  title.byte_count = told.count;
  title.timestamp = told.time;
  title.opcode_qpn = told.first.qpn;
  title.wqe_counter = told.first.counter;
  std::byte* to = entry(produced_);
  std::memcpy(to, &title, sizeof title - 1);
  const auto owner = static_cast<uint8_t>(produced_ / ring_.entries & 1);
  __atomic_store_n(reinterpret_cast<uint8_t*>(to) + sizeof title - 1,
                   static_cast<uint8_t>(kCqeSend << 4 | kCqeCompressed | owner), __ATOMIC_RELEASE);
  produced_ += told.count;
  if (armed_ != Armed::kNo) raise(false, told.count);
}

}  // namespace verbatim::connectx
