// SPDX-License-Identifier: MIT
#include "wire/link/shm/peer_channel.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/asymmetric_fence.h"
#include "base/fault_copy.h"
#include "wire/link/shm/cross_memory.h"

namespace verbatim::wire::shm {

namespace {

constexpr uint32_t kNotCounted = 2;  ///< ticket of an access to a dead peer

}  // namespace

Expected<std::unique_ptr<PeerChannel>> PeerChannel::open(const Self& self, PeerHandles handles,
                                                         size_t published_bytes) {
  std::unique_ptr<PeerChannel> made(new PeerChannel(self, handles));
  auto published = SharedFile::adopt(handles.published, published_bytes, SharedFile::Peers::kRead);
  auto inbound = SharedFile::adopt(handles.inbound, sizeof(Inbound), SharedFile::Peers::kWrite);
  if (!published) return published.error();
  if (!inbound) return inbound.error();
  made->published_ = std::move(*published);
  made->inbound_ = std::move(*inbound);
  if (made->prefix().magic != PublishedPrefix::kMagic ||
      made->inbound().header.magic != InboundHeader::kMagic)
    return Error{EPROTO, "the peer's shared memory is not laid out as this version expects"};
  if (Outcome claimed = made->claim(); !claimed) return claimed.error();
  if (self.cross_memory) made->probe();
  return made;
}

PeerChannel::~PeerChannel() {
  if (wake_ >= 0) close(wake_);
}

void PeerChannel::abandon() {
  die();
  published_.make_private(SharedFile::Content::kZero);
  inbound_.make_private(SharedFile::Content::kZero);
  if (wake_ >= 0) close(wake_);
  wake_ = -1;
}

void PeerChannel::release() {
  published_ = SharedFile();
  inbound_ = SharedFile();
  if (wake_ >= 0) close(wake_);
  wake_ = -1;
}

Outcome PeerChannel::claim() {
  RingControl& control = inbound().controls[self_.slot];
  uint64_t owner = 0;
  if (!control.owner.compare_exchange_strong(owner, self_.generation) && owner != self_.generation) {
    nudge();
    return Error{EBUSY, "the peer has not yet cleared the ring of this slot's former owner"};
  }
  writer_ = RingWriter(inbound().rings[self_.slot], &control);
  InboundHeader& header = inbound().header;
  header.senders[self_.slot / 64].fetch_or(1ull << (self_.slot % 64));
  header.changes.fetch_add(1);
  return Done{};
}

// The nonce lies in the peer's private memory: reading it proves that the pid is the peer's and that the
// kernel allows it.
void PeerChannel::probe() {
  if (pid_ == 0) return;
  uint64_t nonce = 0;
  const Piece here{&nonce, sizeof nonce};
  const Piece there{reinterpret_cast<void*>(prefix().probe_address), sizeof nonce};
  const CrossResult result = read_from(pid_, &here, 1, &there, 1);
  cross_.store(result == CrossResult::kDone && nonce == prefix().probe_nonce, std::memory_order_relaxed);
}

// A record lock says nothing to the process that holds it: two engines in one process take each other for
// alive.
bool PeerChannel::process_lives() const {
  if (buried()) return false;
  return pid_ == static_cast<uint32_t>(getpid()) || inbound_.owner_lives();
}

bool PeerChannel::alive() {
  if (dead() || gone_.load(std::memory_order_relaxed)) return false;
  if (process_lives()) return true;
  gone_.store(true, std::memory_order_relaxed);
  return false;
}

uint32_t PeerChannel::payload_max(bool may_pull) const {
  return may_pull && cross_memory() && pull_.load(std::memory_order_relaxed) ? kMessageBytesMax
                                                                             : kEagerBytesMax;
}

SendResult PeerChannel::send(const Segment& segment, const Piece* pieces, uint32_t count, bool may_pull,
                             Segment*) {
  if (dead() || gone_.load(std::memory_order_relaxed)) return SendResult::kUnreachable;
  const uint8_t form = form_of(segment);
  const uint32_t payload = segment.has(kPlaced) || count == 0 ? 0 : segment.length;
  std::lock_guard<SpinLock> hold(send_lock_);
  if (payload > kEagerBytesMax)
    return may_pull ? send_pulled(segment, form, pieces, count) : SendResult::kUnreachable;
  const uint32_t head = head_bytes(form);
  const uint32_t slots = (head + payload + kSlotBytes - 1) / kSlotBytes;
  std::byte* entry = reserve(slots);
  if (!entry) return SendResult::kBusy;
  std::byte* at = entry + head;
  for (uint32_t i = 0; payload > 0 && i < count; i++) {
    if (!fault_copy(at, pieces[i].base, pieces[i].length)) return SendResult::kSourceFault;
    at += pieces[i].length;
  }
  write_head(segment, form, static_cast<uint16_t>(slots), entry);
  if (self_.captured()) [[unlikely]]
    record(segment, pieces, count);
  writer_.publish(slots);
  if (segment.operation != Operation::kAck)
    self_.requests_sent->store(self_.requests_sent->load(std::memory_order_relaxed) + 1,
                               std::memory_order_relaxed);
  pushed();
  return SendResult::kAccepted;
}

// With the send lock held. A refusal marks the channel busy, so that the fabric tells when there is room
// again.
std::byte* PeerChannel::reserve(uint32_t slots) {
  std::byte* entry = writer_.reserve(slots);
  if (!entry && writer_.ask_for_room(slots)) entry = writer_.reserve(slots);
  if (entry) return entry;
  room_wanted_ = slots;
  if (!busy_.exchange(true)) self_.busy_channels->fetch_add(1);
  return nullptr;
}

SendResult PeerChannel::send_pulled(const Segment& segment, uint8_t form, const Piece* pieces,
                                    uint32_t count) {
  const uint32_t head = head_bytes(form);
  const uint32_t slots =
      (head + count * static_cast<uint32_t>(sizeof(PulledPiece)) + kSlotBytes - 1) / kSlotBytes;
  std::byte* entry = reserve(slots);
  if (!entry) return SendResult::kBusy;
  for (uint32_t i = 0; i < count; i++) {
    const PulledPiece piece{reinterpret_cast<uint64_t>(pieces[i].base), pieces[i].length};
    std::memcpy(entry + head + i * sizeof piece, &piece, sizeof piece);
  }
  write_head(segment, form | kPulled, static_cast<uint16_t>(slots), entry);
  if (self_.captured()) [[unlikely]]
    record(segment, pieces, count);
  writer_.publish(slots);
  pushed();
  return SendResult::kAccepted;
}

// Before the peer sees it: its answer comes later.
void PeerChannel::record(const Segment& segment, const Piece* pieces, uint32_t count) const {
  if (!segment.has(kPassedOn) && !segment.has(kRepeated)) self_.tap->record(segment, pieces, count);
}

// The stamp must be visible before the attention word is read, or a receiver that falls asleep between the
// two is missed.
void PeerChannel::pushed() {
  InboundHeader& header = inbound().header;
  light_fence(header.fences_alone.load(std::memory_order_relaxed) != 0);
  std::atomic<uint32_t>& attention = header.attention;
  if (attention.load(std::memory_order_relaxed) != 0 && attention.exchange(0) != 0) nudge();
}

void PeerChannel::nudge() {
  const uint64_t one = 1;
  if (!dead()) (void)!write(wake_, &one, sizeof one);
}

bool PeerChannel::room_again() {
  if (!busy_.load(std::memory_order_relaxed)) return false;
  std::lock_guard<SpinLock> hold(send_lock_);
  if (!dead() && !writer_.ask_for_room(room_wanted_)) return false;
  if (!busy_.exchange(false)) return false;
  self_.busy_channels->fetch_sub(1);
  return true;
}

const std::byte* PeerChannel::published() const {
  return cross_memory() && !dead() && !self_.captured() ? published_.data() + kPage : nullptr;
}

// Counted under the parity that is current after the count: wait_for_peers flips it twice and waits for the
// old one.
uint32_t PeerChannel::enter_access() {
  if (dead()) return kNotCounted;
  const uint32_t side = prefix().access_epoch.load(std::memory_order_relaxed) & 1;
  inbound().access[self_.slot].count[side].fetch_add(1, std::memory_order_seq_cst);
  return side;
}

void PeerChannel::leave_access(uint32_t ticket) {
  if (ticket == kNotCounted) return;
  inbound().access[self_.slot].count[ticket & 1].fetch_sub(1, std::memory_order_release);
}

bool PeerChannel::cross(bool write, uint64_t remote, const Piece* pieces, uint32_t count) {
  if (!cross_memory() || dead()) return false;
  size_t bytes = 0;
  for (uint32_t i = 0; i < count; i++) bytes += pieces[i].length;
  const Piece there{reinterpret_cast<void*>(remote), bytes};
  const CrossResult result =
      write ? write_to(pid_, pieces, count, &there, 1) : read_from(pid_, pieces, count, &there, 1);
  if (result == CrossResult::kForbidden) forbid_cross_memory();
  return result == CrossResult::kDone;
}

bool PeerChannel::write_direct(uint64_t remote, const Piece* pieces, uint32_t count) {
  return cross(true, remote, pieces, count);
}
bool PeerChannel::read_direct(uint64_t remote, const Piece* pieces, uint32_t count) {
  return cross(false, remote, pieces, count);
}

}  // namespace verbatim::wire::shm
