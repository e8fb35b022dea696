// SPDX-License-Identifier: MIT
#include "device/connectx/completion_ring.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <utility>

#include "device/connectx/completion_moderation.h"
#include "device/connectx/hardware_clock.h"
#include "device/connectx/queue_access.h"

namespace verbatim::connectx {

namespace {

constexpr uint8_t kCqeSolicited = 2;  ///< in the last byte

uint8_t syndrome_of(engine::Status status) {
  switch (status) {
    case engine::Status::kSuccess:
      return 0;
    case engine::Status::kLocalLength:
      return kSyndromeLocalLength;
    case engine::Status::kLocalQpOperation:
      return kSyndromeLocalQpOperation;
    case engine::Status::kLocalProtection:
      return kSyndromeLocalProtection;
    case engine::Status::kFlushed:
      return kSyndromeFlushed;
    case engine::Status::kMemoryWindowBind:
      return kSyndromeWindowBind;
    case engine::Status::kBadResponse:
      return kSyndromeBadResponse;
    case engine::Status::kLocalAccess:
      return kSyndromeLocalAccess;
    case engine::Status::kRemoteInvalidRequest:
      return kSyndromeRemoteInvalidRequest;
    case engine::Status::kRemoteAccess:
      return kSyndromeRemoteAccess;
    case engine::Status::kRemoteOperation:
      return kSyndromeRemoteOperation;
    case engine::Status::kRetryExceeded:
      return kSyndromeRetryExceeded;
    case engine::Status::kRnrRetryExceeded:
      return kSyndromeRnrRetryExceeded;
    case engine::Status::kRemoteAborted:
      return kSyndromeRemoteAborted;
  }
  return kSyndromeLocalQpOperation;
}

// Vendor syndromes that a ConnectX gives with the common errors.
uint8_t vendor_syndrome_of(engine::Status status) {
  switch (status) {
    case engine::Status::kFlushed:
      return 0xf9;
    case engine::Status::kLocalProtection:
      return 0x56;
    case engine::Status::kLocalLength:
      return 0xd8;
    case engine::Status::kLocalQpOperation:
      return 0x68;
    case engine::Status::kRemoteInvalidRequest:
      return 0x8a;
    case engine::Status::kRemoteAccess:
      return 0x88;
    case engine::Status::kRemoteOperation:
      return 0x89;
    case engine::Status::kRetryExceeded:
      return 0x81;
    case engine::Status::kRnrRetryExceeded:
      return 0x82;
    case engine::Status::kRemoteAborted:
      return 0x99;
    case engine::Status::kSuccess:
    case engine::Status::kMemoryWindowBind:
    case engine::Status::kBadResponse:
    case engine::Status::kLocalAccess:
      return 0;
  }
  return 0;
}

}  // namespace

CompletionRing::CompletionRing(const hw::CqSpec& spec, hw::Cq& face, hw::EventSink& sink,
                               std::function<void()> on_overrun)
    : ring_(spec.ring),
      doorbell_(spec.doorbell),
      ignore_overrun_(spec.ignore_overrun),
      real_time_(spec.real_time),
      face_(face),
      sink_(sink),
      on_overrun_(std::move(on_overrun)) {}

// The last 64 bytes of the entry: an entry of 128 bytes begins with room for inline data.
std::byte* CompletionRing::entry(uint32_t index) const {
  const size_t slot = index & (ring_.entries - 1);
  return static_cast<std::byte*>(ring_.base) + (slot + 1) * ring_.stride - sizeof(Cqe);
}

// With the lock held: the next entry, cleared but for its last byte, which still says that it is not there;
// nullptr: the queue has overrun. It is filled in place: copied from elsewhere it would be read back right
// after it was written, which stalls a processor. Only an entry in memory of a program is copied.
template <class T>
inline T* CompletionRing::claim() {
  if (overrun_.load(std::memory_order_relaxed)) return nullptr;
  const uint32_t unread = (produced_ - record(0)) & kCqIndexMask;
  if (unread < ring_.entries || ignore_overrun_) {
    std::byte* to = ring_.revocable ? staged_ : entry(produced_);
    std::memset(to, 0, sizeof(T) - 1);
    if (ring_.padded) std::memset(to + sizeof(T) - ring_.stride, 0, ring_.stride - sizeof(T));
    return reinterpret_cast<T*>(to);
  }
  lose();
  return nullptr;
}

// With the lock held. Completions are lost from now on.
void CompletionRing::lose() {
  overrun_.store(true, std::memory_order_relaxed);
  if (moderation_ && moderation_->holds()) fire();
  sink_.on_async(hw::AsyncEvent::kCqError, face_.owner);
  on_overrun_();
}

// With the lock held: the staged entry goes into the ring. False: the ring is not there any more.
bool CompletionRing::hand_over(uint8_t last) {
  std::byte* to = entry(produced_);
  if (!fault_copy(to, staged_, sizeof staged_ - 1)) return false;
  __atomic_thread_fence(__ATOMIC_RELEASE);
  return fault_copy(to + sizeof staged_ - 1, &last, 1);
}

uint64_t CompletionRing::timestamp() const {
  if (!face_.timed.load(std::memory_order_relaxed)) return 0;
  if (!real_time_) [[likely]]
    return hardware_ticks();
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  return static_cast<uint64_t>(wall.tv_sec) << 32 | static_cast<uint64_t>(wall.tv_nsec);
}

inline void CompletionRing::publish(uint8_t& last_byte, uint8_t opcode, bool solicited) {
  const uint8_t owner = produced_ / ring_.entries & 1;
  const uint8_t last = static_cast<uint8_t>(opcode << 4 | (solicited ? kCqeSolicited : 0) | owner);
  if (!ring_.revocable) [[likely]] {
    __atomic_store_n(&last_byte, last, __ATOMIC_RELEASE);
  } else if (!hand_over(last)) {
    unreachable_ = true;
    return lose();
  }
  produced_++;
  const bool special = solicited || opcode == kCqeRequestError || opcode == kCqeReceiveError;
  if (armed_ != Armed::kNo) raise(special);
}

void CompletionRing::raise(bool solicited, uint32_t completions) {
  const bool waited_for = armed_ == Armed::kAny || solicited || (moderation_ && moderation_->holds());
  if (!waited_for || (moderation_ && moderation_->holds_back(completions))) return;
  fire();
}

void CompletionRing::push_request(uint32_t opcode_qpn, uint32_t user_index, uint16_t counter,
                                  uint32_t bytes) {
  std::lock_guard<SpinLock> hold(lock_);
  tell_session();
  Cqe* cqe = claim<Cqe>();
  if (!cqe) return;
  cqe->user_index = user_index;
  cqe->byte_count = bytes;
  cqe->timestamp = timestamp();
  cqe->opcode_qpn = opcode_qpn;
  cqe->wqe_counter = counter;
  publish(cqe->opcode_owner, kCqeRequest, false);
}

// With the lock held.
inline void CompletionRing::fill_receive(const Received& received, uint64_t time) {
  Cqe* cqe = claim<Cqe>();
  if (!cqe) return;
  cqe->slid = received.slid;
  cqe->flags_rqpn = received.flags_rqpn;
  cqe->frame = received.frame;
  if (received.head) [[unlikely]]
    std::memcpy(cqe->head, received.head, sizeof cqe->head);
  cqe->hash_kind = received.hash_kind;
  cqe->application = received.application;
  cqe->user_index = received.user_index;
  cqe->immediate = Be32::from_raw(received.immediate_raw);
  cqe->byte_count = received.bytes;
  cqe->timestamp = time;
  cqe->opcode_qpn = received.qpn;
  cqe->wqe_counter = received.counter;
  publish(cqe->opcode_owner, received.cqe_opcode, received.solicited);
}

void CompletionRing::push_receive(const Received& received) {
  std::lock_guard<SpinLock> hold(lock_);
  if (ring_.compressed && received.application == 0 && gather(received)) return;
  tell_session();
  fill_receive(received, timestamp());
}

void CompletionRing::write_receive(const Received& received, uint64_t time) { fill_receive(received, time); }

void CompletionRing::push_signature_error(uint32_t key, const engine::SignatureFault& fault) {
  std::lock_guard<SpinLock> hold(lock_);
  tell_session();
  auto* cqe = claim<SignatureErrorCqe>();
  if (!cqe) return;
  cqe->expected_high = static_cast<uint32_t>(fault.computed >> 32);
  cqe->expected_low = static_cast<uint32_t>(fault.computed);
  cqe->actual_high = static_cast<uint32_t>(fault.found >> 32);
  cqe->actual_low = static_cast<uint32_t>(fault.found);
  switch (fault.part) {
    case engine::SignaturePart::kGuard:
      cqe->syndrome = kBadGuard;
      break;
    case engine::SignaturePart::kAppTag:
      cqe->syndrome = kBadAppTag;
      break;
    case engine::SignaturePart::kRefTag:
      cqe->syndrome = kBadRefTag;
      break;
  }
  cqe->kind = kBlockSignature;
  cqe->domain = fault.side == engine::SignatureSide::kWire ? kWireDomain : kMemoryDomain;
  cqe->key = key;
  cqe->offset = fault.offset;
  publish(cqe->opcode_owner, kCqeSignatureError, false);
}

void CompletionRing::push_error(uint8_t cqe_opcode, engine::Status status, uint8_t detail,
                                uint32_t opcode_qpn, uint32_t user_index, uint16_t counter) {
  std::lock_guard<SpinLock> hold(lock_);
  tell_session();
  ErrorCqe* cqe = claim<ErrorCqe>();
  if (!cqe) return;
  cqe->user_index = user_index;
  cqe->vendor_syndrome = detail ? detail : vendor_syndrome_of(status);
  cqe->syndrome = syndrome_of(status);
  cqe->opcode_qpn = opcode_qpn;
  cqe->wqe_counter = counter;
  publish(cqe->opcode_owner, cqe_opcode, false);
}

// Completions from now on raise the event, those that wait unread do not (ibv_req_notify_cq(3)): a program
// looks once more after arming.
void CompletionRing::arm() {
  const uint32_t word = record(1);
  std::lock_guard<SpinLock> hold(lock_);
  armed_word_ = word;
  armed_ = word & kArmSolicitedOnly ? Armed::kSolicited : Armed::kAny;
}

void CompletionRing::arm_late() {
  const uint32_t word = record(1);
  std::lock_guard<SpinLock> hold(lock_);
  if (word == armed_word_) return;
  armed_word_ = word;
  armed_ = word & kArmSolicitedOnly ? Armed::kSolicited : Armed::kAny;
  const uint32_t uncovered = std::min((produced_ - word) & kCqIndexMask, ring_.entries);
  for (uint32_t i = 1; i <= uncovered && armed_ != Armed::kNo; i++) raise(special(produced_ - i));
}

// Whether the entry is one that those wait for who wait for solicited ones alone.
bool CompletionRing::special(uint32_t index) const {
  uint8_t last = 0;
  (void)read_queue(&last, entry(index) + offsetof(Cqe, opcode_owner), 1, ring_.revocable);
  const int opcode = last >> 4;
  return (last & kCqeSolicited) != 0 || opcode == kCqeRequestError || opcode == kCqeReceiveError;
}

Outcome CompletionRing::resize(const hw::QueueMemory& ring) {
  std::lock_guard<SpinLock> hold(lock_);
  tell_session();
  const uint32_t unread = (produced_ - record(0)) & kCqIndexMask;
  if (unread > ring.entries) return Error{EINVAL, "more completions wait than the new size holds"};
  const hw::QueueMemory old = ring_;
  uint32_t short_entries = 0;  // places of a session after its title: nobody's owner bit lies there
  for (uint32_t i = 0; i < unread && i < old.entries; i++) {
    const uint32_t index = produced_ - unread + i;
    ring_ = old;
    const std::byte* from = entry(index);
    ring_ = ring;
    std::byte* to = entry(index);
    std::memcpy(to, from, sizeof(Cqe));
    if (short_entries > 0) {
      short_entries--;
      continue;
    }
    auto& last = reinterpret_cast<Cqe*>(to)->opcode_owner;
    if ((last & kCqeCompressed) == kCqeCompressed) short_entries = reinterpret_cast<Cqe*>(to)->byte_count - 1;
    last = static_cast<uint8_t>((last & ~1) | (index / ring.entries & 1));
  }
  ring_ = ring;
  return Done{};
}

Outcome CompletionRing::go_on_in(const hw::QueueMemory& ring) {
  std::lock_guard<SpinLock> hold(lock_);
  tell_session();
  const uint32_t unread = (produced_ - record(0)) & kCqIndexMask;
  if (unread >= ring.entries) return Error{EINVAL, "more completions wait than the new size holds"};
  Cqe* cqe = claim<Cqe>();
  if (cqe == nullptr) return Error{EBUSY, "the completion queue has overrun"};
  publish(cqe->opcode_owner, kCqeResize, false);
  ring_ = ring;
  return Done{};
}

void CompletionRing::ignore_overruns(bool ignored) {
  std::lock_guard<SpinLock> hold(lock_);
  ignore_overrun_ = ignored;
}

CompletionRing::Facts CompletionRing::facts() {
  std::lock_guard<SpinLock> hold(lock_);
  return {ring_.entries,
          ring_.stride,
          record(0) & kCqIndexMask,
          produced_ & kCqIndexMask,
          armed_,
          ignore_overrun_,
          overrun(),
          unreachable_};
}

}  // namespace verbatim::connectx
