// SPDX-License-Identifier: MIT
// The responder's part in requests that are answered by a response; of these atomic writes and flushes here
// (IBA annex A19).
//
// What came before a flush has been placed when it is looked at, so that it is visible; to last, it has to be
// in its file, too.
#include <sys/mman.h>

#include <atomic>
#include <cerrno>

#include "base/fault_copy.h"
#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::CopyResult;
using wire::Operation;
using wire::Segment;

namespace {

constexpr size_t kResponsesMax = 256;  ///< more than any peer may have outstanding
constexpr uint64_t kPage = 4096;

/// Rights of keys and of queue pairs that a flush needs.
uint32_t rights_of_flush(uint32_t placement) {
  return (placement & wire::kFlushVisible ? static_cast<uint32_t>(kFlushGlobal) : 0) |
         (placement & wire::kFlushLasting ? static_cast<uint32_t>(kFlushPersistent) : 0);
}

/// False: the word is not mapped, or not for writing.
bool store_word(uint64_t* word, uint64_t value) {
  for (uint64_t expected = 0, found = 0;; expected = found) {
    if (!fault_compare_swap(word, expected, value, &found)) return false;
    if (found == expected) return true;
  }
}

/// Brings memory of a mapped file into the file; other memory has nowhere to last. 0 or an errno value.
int make_last(const wire::Piece& piece) {
  const auto begin = reinterpret_cast<uintptr_t>(piece.base) & ~(kPage - 1);
  const auto end = reinterpret_cast<uintptr_t>(piece.base) + piece.length;
  return msync(reinterpret_cast<void*>(begin), end - begin, MS_SYNC) == 0 ? 0 : errno;
}

}  // namespace

// With the lock held.
Responder::Verdict Responder::answer(const Segment& segment, wire::Payload& payload) {
  switch (segment.operation) {
    case Operation::kReadRequest:
      return read_request(segment);
    case Operation::kAtomicWrite:
      return atomic_write(segment, payload);
    case Operation::kFlush:
      return flush_memory(segment);
    default:
      return atomic(segment);
  }
}

const char* Responder::no_room_for_response() const {
  return qp_.attributes().max_dest_rd_atomic == 0 || responses_.size() >= kResponsesMax
             ? "more reads, atomics and flushes than max_dest_rd_atomic allows"
             : nullptr;
}

// A read that came before must not see what a request is about to change, and reads the memory only when its
// response leaves. False: the request is not carried out now.
bool Responder::settle_responses() {
  if (responses_.empty()) return true;
  if (!send_responses()) {
    nak_sent_ = ack_due_ = true;
    due_syndrome_ = wire::kNakSequence;  // it comes again
    return false;
  }
  return !nak_sent_;  // else the read's memory is gone
}

Responder::Verdict Responder::atomic_write(const Segment& segment, wire::Payload& payload) {
  if (!(qp_.attributes().access & kRemoteWrite))
    return refuse(wire::kNakRemoteAccess, "the queue pair does not allow remote writes");
  if (segment.length != sizeof(uint64_t) || segment.total_length != sizeof(uint64_t))
    return refuse(wire::kNakInvalidRequest, "an atomic write is not of 8 bytes");
  if (segment.remote_address % sizeof(uint64_t) != 0)
    return refuse(wire::kNakInvalidRequest, "the address of an atomic write is not a multiple of 8");
  if (const char* why = no_room_for_response()) return refuse(wire::kNakInvalidRequest, why);
  wire::Piece piece;
  if (const char* why =
          engine_.keys().translate(segment.rkey, landing_.domain, kRemoteWrite, segment.remote_address,
                                   sizeof(uint64_t), piece, qp_.number()))
    return refuse(wire::kNakRemoteAccess, why);
  if (piece.length != sizeof(uint64_t) || reinterpret_cast<uintptr_t>(piece.base) % sizeof(uint64_t) != 0)
    return refuse(wire::kNakRemoteAccess,
                  "the memory of an atomic write is not one aligned piece of what its key stands for");
  uint64_t value = 0;
  const wire::Piece here{&value, sizeof value};
  if (payload.copy_to(0, &here, 1) != CopyResult::kDone) return refuse(wire::kNakSourceFault, nullptr);
  if (!settle_responses()) return Verdict::kRefused;
  if (!store_word(static_cast<uint64_t*>(piece.base), value))
    return refuse(wire::kNakRemoteAccess, "the memory of an atomic write is not mapped");
  count_message(sizeof value);
  responses_.push_back(
      {Operation::kReadResponse, segment.psn, 1, 0, 0, 0, 0, 0, wire::psn_add(msn_, 1), landing_.domain});
  return Verdict::kDone;
}

Responder::Verdict Responder::flush_memory(const Segment& segment) {
  const uint32_t placement = segment.immediate;
  const uint32_t rights = rights_of_flush(placement);
  if (rights == 0 || (placement & ~(wire::kFlushVisible | wire::kFlushLasting | wire::kFlushRegion)) != 0)
    return refuse(wire::kNakInvalidRequest, "a flush asks for a placement that there is not");
  if ((qp_.attributes().access & rights) != rights)
    return refuse(wire::kNakRemoteAccess, "the queue pair does not allow flushes of that placement");
  if (const char* why = no_room_for_response()) return refuse(wire::kNakInvalidRequest, why);
  uint64_t address = segment.remote_address, left = segment.total_length;
  if (KeyView view; (placement & wire::kFlushRegion) != 0) {
    if (!engine_.keys().look(segment.rkey >> 8, view) || view.key != segment.rkey)
      return refuse(wire::kNakRemoteAccess, "no memory region has the key of a flush");
    address = view.start;
    left = view.length;
  }
  // Also of nothing: the key must be right.
  do {
    wire::Piece piece;
    if (const char* why = engine_.keys().translate(segment.rkey, landing_.domain, rights, address, left,
                                                   piece, qp_.number()))
      return refuse(wire::kNakRemoteAccess, why);
    if (piece.length == 0 && left > 0)
      return refuse(wire::kNakRemoteAccess, "the key of a flush stands for data that is made on the way");
    const int error = (placement & wire::kFlushLasting) != 0 && piece.length > 0 ? make_last(piece) : 0;
    if (error == ENOMEM) return refuse(wire::kNakRemoteAccess, "the memory of a flush is not mapped");
    if (error != 0)
      return refuse(wire::kNakRemoteOperational, "the file behind the memory cannot be written");
    address += piece.length;
    left -= piece.length;
  } while (left > 0);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  count_message(0);
  responses_.push_back(
      {Operation::kReadResponse, segment.psn, 1, 0, 0, 0, 0, 0, wire::psn_add(msn_, 1), landing_.domain});
  return Verdict::kDone;
}

}  // namespace verbatim::engine
