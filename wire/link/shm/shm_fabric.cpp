// SPDX-License-Identifier: MIT
#include "wire/link/shm/shm_fabric.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/asymmetric_fence.h"
#include "base/ticks.h"
#include "wire/link/flat_payload.h"
#include "wire/link/shm/cross_memory.h"
#include "wire/link/shm/payloads.h"

namespace verbatim::wire::shm {

namespace {

constexpr uint64_t kRestTicks = 1000;  ///< some hundred nanoseconds
constexpr uint64_t kIntroductionRetryNs = 2'000'000;
constexpr uint64_t kDeadLookNs =
    1'000'000;  ///< how often those who are waited for are asked whether they live
constexpr uint64_t kAccessWaitMaxNs =
    10'000'000'000;  ///< a live peer that counts for longer has broken its counters

}  // namespace

Expected<std::unique_ptr<ShmFabric>> ShmFabric::create(size_t published_bytes, const Clock& clock) {
  std::unique_ptr<ShmFabric> made(new ShmFabric(clock));
  auto published =
      SharedFile::create("verbatim-published", kPage + published_bytes, SharedFile::Peers::kRead);
  if (!published) return published.error();
  auto inbound = SharedFile::create("verbatim-inbound", sizeof(Inbound), SharedFile::Peers::kWrite);
  if (!inbound) return inbound.error();
  made->published_ = std::move(*published);
  made->inbound_ = std::move(*inbound);
  if (!made->inbound_.lock_as_owner())
    return Error{errno, "the owner's lock on shared memory could not be taken"};
  made->wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (made->wake_ < 0) return Error{errno, "no event descriptor could be made"};
  if (getrandom(&made->nonce_, sizeof made->nonce_, 0) != sizeof made->nonce_) made->nonce_ = clock.now_ns();
  consent_to_peers();
  PublishedPrefix& prefix = made->prefix();
  prefix.probe_address = reinterpret_cast<uint64_t>(&made->nonce_);
  prefix.probe_nonce = made->nonce_;
  prefix.magic = PublishedPrefix::kMagic;
  made->inbound().header.magic = InboundHeader::kMagic;
  return made;
}

ShmFabric::~ShmFabric() {
  if (wake_ >= 0) close(wake_);
}

PeerHandles ShmFabric::handles() const {
  PeerHandles handles;
  handles.published = published_.file();
  handles.inbound = inbound_.file();
  handles.wake = wake_;
  return handles;
}

void ShmFabric::attach(Neighborhood& neighborhood, uint32_t slot, uint64_t generation) {
  neighborhood_ = &neighborhood;
  self_ = {slot, generation, cross_memory_wanted(), &busy_channels_, &requests_sent_, nullptr};
  prefix().slot = slot;
  prefix().generation = generation;
  add_own_slot(slot);
}

bool ShmFabric::wakes_are_certain() const {
  return inbound().header.fences_alone.load(std::memory_order_relaxed) == 0;
}

void ShmFabric::set_receiver(Receiver& receiver) {
  loopback_ = std::make_unique<LoopbackChannel>(receiver, published(), prefix(), own_access_, self_.tap);
}

void ShmFabric::add_own_slot(uint32_t slot) { own_slots_[slot / 64].fetch_or(1ull << (slot % 64)); }

Channel* ShmFabric::channel(const Gid& dest, uint32_t dest_qpn) {
  return neighborhood_->is_local(dest) ? neighbor(dest_qpn) : nullptr;
}

Channel* ShmFabric::neighbor(uint32_t dest_qpn) {
  if (forked_) return nullptr;
  const uint32_t slot = dest_qpn >> 14 & (kSlotsMax - 1);
  return is_own(slot) ? static_cast<Channel*>(loopback_.get()) : peer(slot);
}

std::string ShmFabric::obstacle(const Gid& dest, uint32_t dest_qpn) {
  if (forked_) return "the device was opened by the parent of this forked process";
  if (!neighborhood_->is_local(dest))
    return "its GID is not an address of this host, and there is no way to others";
  std::lock_guard<std::mutex> hold(peers_lock_);
  const auto found = obstacles_.find(dest_qpn >> 14 & (kSlotsMax - 1));
  return found == obstacles_.end() ? "" : found->second;
}

uint32_t ShmFabric::multicast(const Gid& group, Channel** out, uint32_t max) {
  if (forked_) return 0;
  uint32_t slots[kSlotsMax];
  const uint32_t count = neighborhood_->members(group, slots, kSlotsMax);
  uint32_t made = 0;
  for (uint32_t i = 0; i < count && made < max; i++) {
    Channel* way = is_own(slots[i]) ? static_cast<Channel*>(loopback_.get()) : peer(slots[i]);
    if (way) out[made++] = way;
  }
  return made;
}

PeerChannel* ShmFabric::peer(uint32_t slot) {
  PeerChannel* known = peers_[slot].load(std::memory_order_acquire);
  const uint64_t generation = neighborhood_->slot_generation(slot);
  if (known && !known->dead() && (known->slot() != slot || known->generation() == generation)) return known;
  // It broke the format or was buried: met again, its rings would be out of step.
  if (known && known->generation() == generation) return nullptr;
  if (slot == 0 || generation == 0) return nullptr;
  return introduce(slot);
}

PeerChannel* ShmFabric::introduce(uint32_t slot) {
  std::lock_guard<std::mutex> hold(peers_lock_);
  PeerChannel* known = peers_[slot].load(std::memory_order_acquire);
  const uint64_t now = clock_.now_ns();
  if (known && !known->dead() && known->generation() == neighborhood_->slot_generation(known->slot()))
    return known;
  if (now < retry_at_ns_[slot]) return nullptr;
  retry_at_ns_[slot] = now + kIntroductionRetryNs;
  Expected<PeerHandles> handles = neighborhood_->introduce(slot);
  if (!handles) obstacles_[slot] = handles.error().reason;
  if (!handles || handles->primary_slot >= kSlotsMax) return nullptr;
  auto opened = PeerChannel::open(self_, *handles, published_.bytes());
  if (!opened) obstacles_[slot] = opened.error().reason;
  if (!opened) return nullptr;
  obstacles_.erase(slot);
  retry_at_ns_[slot] = 0;
  all_.push_back(std::move(*opened));
  PeerChannel* made = all_.back().get();
  peers_[made->slot()].store(made, std::memory_order_release);
  peers_[slot].store(made, std::memory_order_release);
  return made;
}

uint32_t ShmFabric::poll(Receiver& receiver, uint32_t budget) {
  if (forked_) return 0;
  if (changed() || introductions_due()) refresh_senders();
  uint32_t done = 0;
  for (size_t left = senders_.size(); left > 0 && done < budget; left--) {
    if (turn_ >= senders_.size()) turn_ = 0;
    done += drain(*senders_[turn_++], receiver, budget - done);
  }
  if (busy_channels_.load(std::memory_order_relaxed) != 0) tell_room(receiver);
  if (done > 0) {
    const uint32_t sent = requests_sent();
    if (sent == answered_requests_)
      rest_until_.store(processor_ticks() + kRestTicks, std::memory_order_relaxed);
    answered_requests_ = sent;
  }
  return done;
}

bool ShmFabric::worth_polling() {
  const uint64_t until = rest_until_.load(std::memory_order_relaxed);
  if (until != 0) {
    if (processor_ticks() < until) return false;
    rest_until_.store(0, std::memory_order_relaxed);
  }
  return busy_channels_.load(std::memory_order_relaxed) != 0 || pending();
}

bool ShmFabric::pending() const {
  if (forked_) return false;
  if (changed() || introductions_due()) return true;
  const uint32_t count = watched_count_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; i++) {
    const Sender* sender = watched_[i].load(std::memory_order_relaxed);
    if (sender->reader.pending() && !sender->channel->dead()) return true;
  }
  return false;
}

bool ShmFabric::shares_processor() {
  if (forked_) return false;
  const uint32_t here = static_cast<uint32_t>(sched_getcpu()) + 1;
  if (prefix().polled_on.load(std::memory_order_relaxed) != here)
    prefix().polled_on.store(here, std::memory_order_relaxed);
  const uint32_t count = watched_count_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; i++)
    if (watched_[i].load(std::memory_order_relaxed)->channel->polled_on() == here) return true;
  return false;
}

bool ShmFabric::changed() const {
  return inbound().header.changes.load(std::memory_order_acquire) !=
         seen_changes_.load(std::memory_order_relaxed);
}

bool ShmFabric::introductions_due() const {
  const uint64_t at = introduce_at_ns_.load(std::memory_order_relaxed);
  return at != kNever && clock_.now_ns() >= at;
}

void ShmFabric::watch_senders() {
  for (size_t i = 0; i < senders_.size(); i++)
    watched_[i].store(senders_[i].get(), std::memory_order_relaxed);
  watched_count_.store(static_cast<uint32_t>(senders_.size()), std::memory_order_release);
}

void ShmFabric::tell_room(Receiver& receiver) {
  std::vector<PeerChannel*> roomy;
  {
    std::lock_guard<std::mutex> hold(peers_lock_);
    for (const auto& channel : all_)
      if (channel->room_again()) roomy.push_back(channel.get());
  }
  for (PeerChannel* channel : roomy) receiver.on_room(*channel);
}

uint32_t ShmFabric::drain(Sender& sender, Receiver& receiver, uint32_t budget) {
  uint32_t done = 0;
  bool wake = false;
  receiver.enter();
  while (done < budget && !sender.channel->dead()) {
    EntryHeader header;
    const std::byte* memory = nullptr;
    uint32_t bytes = 0;
    const RingReader::Next next = sender.reader.next(header, memory, bytes);
    if (next == RingReader::Next::kNone) break;
    if (next == RingReader::Next::kBroken || !deliver(sender, receiver, header, memory, bytes)) {
      sender.channel->die();
      receiver.on_gone(*sender.channel);
      break;
    }
    wake |= sender.reader.consume(header);
    done++;
  }
  receiver.leave();
  if (wake) sender.channel->nudge();
  return done;
}

// False: the entry is not one that this version writes.
bool ShmFabric::deliver(Sender& sender, Receiver& receiver, const EntryHeader& header,
                        const std::byte* memory, uint32_t bytes) {
  const uint32_t head = head_bytes(header.form);
  Segment segment;
  if (head > bytes || !read_head(header, memory, segment)) return false;
  if (!(header.form & kPulled)) {
    const size_t payload = segment.has(kPlaced) ? 0 : segment.length;
    if (payload > bytes - head) return false;
    FlatPayload flat(memory + head, payload);
    const bool passed_on = segment.has(kPassedOn);
    if (passed_on && (!passed_on_ || !(header.form & kHasDatagram))) return false;
    receiver.on_segment(passed_on ? passed_on_(segment.source_gid) : *sender.channel, segment, flat, nullptr);
    return true;
  }
  if (segment.length > kMessageBytesMax) return false;
  Piece there[kPiecesMax];
  uint32_t count = 0;
  uint64_t sum = 0;
  for (uint32_t at = head; sum < segment.length; at += sizeof(PulledPiece)) {
    PulledPiece piece;
    if (at + sizeof piece > bytes || count == kPiecesMax) return false;
    std::memcpy(&piece, memory + at, sizeof piece);
    if (piece.length > segment.length - sum) return false;
    there[count++] = {reinterpret_cast<void*>(piece.address), piece.length};
    sum += piece.length;
  }
  PulledPayload pulled(*sender.channel, there, count);
  receiver.on_segment(*sender.channel, segment, pulled, nullptr);
  return true;
}

// Meets those that have begun to send since the last look.
void ShmFabric::refresh_senders() {
  seen_changes_ = inbound().header.changes.load(std::memory_order_acquire);
  introduce_at_ns_ = kNever;
  for (uint32_t slot = 1; slot < kSlotsMax; slot++) {
    if (!(inbound().header.senders[slot / 64].load(std::memory_order_relaxed) >> (slot % 64) & 1)) continue;
    RingControl& control = inbound().controls[slot];
    const uint64_t owner = control.owner.load(std::memory_order_acquire);
    const auto known =
        std::find_if(senders_.begin(), senders_.end(), [&](const auto& s) { return s->slot == slot; });
    if (owner == 0 || known != senders_.end()) continue;
    PeerChannel* channel = peer(slot);
    if (!channel || channel->generation() != owner) {
      const uint64_t present = neighborhood_->slot_generation(slot);
      if (present != 0 && present != owner)
        drop_sender(slot);  // its owner ended before it was met, and the slot has another one now
      else
        introduce_at_ns_ = clock_.now_ns() + kIntroductionRetryNs;
      continue;
    }
    senders_.push_back(std::make_unique<Sender>(slot, owner, channel, inbound().rings[slot], &control));
    watch_senders();
  }
}

bool ShmFabric::want_wake(bool on) {
  std::atomic<uint32_t>& attention = inbound().header.attention;
  if ((attention.load(std::memory_order_relaxed) != 0) == on) return on;
  const bool before = attention.exchange(on ? 1 : 0, std::memory_order_seq_cst) != 0;
  if (on && !heavy_fence()) inbound().header.fences_alone.store(1, std::memory_order_seq_cst);
  return before;
}

void ShmFabric::want_wake_loosely(bool on) {
  inbound().header.attention.store(on ? 1 : 0, std::memory_order_seq_cst);
}

void ShmFabric::linger(bool begins) {
  if (begins)
    prefix().lingers.fetch_add(1, std::memory_order_relaxed);
  else
    prefix().lingers.fetch_sub(1, std::memory_order_relaxed);
  want_wake_loosely(!begins);
}

bool ShmFabric::lingers() const { return prefix().lingers.load(std::memory_order_relaxed) != 0; }

bool ShmFabric::peer_lingers() const {
  const uint32_t count = watched_count_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; i++)
    if (watched_[i].load(std::memory_order_relaxed)->channel->lingers()) return true;
  return false;
}

void ShmFabric::drop_sender(uint32_t slot) {
  for (auto& sender : senders_)
    if (sender->slot == slot) former_senders_.push_back(std::move(sender));
  std::erase(senders_, nullptr);
  watch_senders();
  inbound().header.senders[slot / 64].fetch_and(~(1ull << (slot % 64)));
  clear_ring(slot);
}

// Back to zero, so that the slot's next owner finds a ring as new. The owner word is freed last.
void ShmFabric::clear_ring(uint32_t slot) {
  RingControl& control = inbound().controls[slot];
  inbound_.punch(static_cast<size_t>(reinterpret_cast<std::byte*>(&inbound().rings[slot]) - inbound_.data()),
                 sizeof inbound().rings[slot]);
  control.head.store(0);
  control.wants_room.store(0);
  for (auto& count : inbound().access[slot].count) count.store(0);
  control.owner.store(0, std::memory_order_release);
}

void ShmFabric::bury(uint32_t slot, uint64_t generation, Receiver& receiver) {
  PeerChannel* channel = peers_[slot].load(std::memory_order_acquire);
  const bool known = channel && channel->slot() == slot && channel->generation() == generation;
  // What it sent before its end has been accepted: deliver it first.
  for (const auto& sender : senders_)
    while (sender->slot == slot && drain(*sender, receiver, kRingSlots) > 0) {
    }
  if (known) channel->bury();
  if (inbound().controls[slot].owner.load(std::memory_order_acquire) == generation) drop_sender(slot);
  if (known) receiver.on_gone(*channel);
  if (known) any_buried_.store(true, std::memory_order_release);
}

void ShmFabric::reclaim(const std::function<void()>& wait_for_users) {
  if (!any_buried_.exchange(false, std::memory_order_acq_rel)) return;
  std::vector<PeerChannel*> buried;
  {
    std::lock_guard<std::mutex> hold(peers_lock_);
    for (const auto& channel : all_)
      if (channel->buried()) buried.push_back(channel.get());
  }
  wait_for_users();
  std::lock_guard<std::mutex> hold(peers_lock_);
  for (PeerChannel* channel : buried) channel->release();
}

void ShmFabric::peer_gone(uint32_t slot, uint64_t generation, Receiver& receiver) {
  if (slot == 0 || slot >= kSlotsMax || is_own(slot)) return;
  bury(slot, generation, receiver);
}

void ShmFabric::sweep(Receiver& receiver) {
  std::vector<std::pair<uint32_t, uint64_t>> gone;
  for (const auto& sender : senders_)
    if (!sender->channel->alive() && !owner_lives(sender->slot))
      gone.emplace_back(sender->slot, sender->generation);
  for (const auto& [slot, generation] : gone) bury(slot, generation, receiver);
}

// A channel may be dead because its peer broke the format: its process still holds the ring then.
bool ShmFabric::owner_lives(uint32_t slot) {
  PeerChannel* channel = peers_[slot].load(std::memory_order_acquire);
  return channel && channel->process_lives();
}

// Whoever counts here may be one that this process has not met, because it never sent anything.
bool ShmFabric::may_access(uint32_t slot) {
  const uint64_t owner = inbound().controls[slot].owner.load(std::memory_order_acquire);
  if (owner == 0) return false;
  PeerChannel* channel = peers_[slot].load(std::memory_order_acquire);
  if (!channel || channel->generation() != owner) channel = peer(slot);
  if (channel && channel->generation() == owner) return channel->process_lives();
  return neighborhood_->slot_generation(slot) == owner;
}

bool ShmFabric::counters_clear(uint32_t side, bool look_for_dead) {
  if (own_access_.count[side].load(std::memory_order_seq_cst) != 0) return false;
  for (uint32_t word = 0; word < kSlotsMax / 64; word++)
    for (uint64_t bits = inbound().header.senders[word].load(std::memory_order_seq_cst); bits != 0;
         bits &= bits - 1) {
      const uint32_t slot = word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits));
      std::atomic<uint32_t>& count = inbound().access[slot].count[side];
      if (count.load(std::memory_order_seq_cst) == 0) continue;
      if (!look_for_dead || may_access(slot)) return false;
      count.store(0, std::memory_order_relaxed);
    }
  return true;
}

void ShmFabric::wait_for_peers() {
  if (forked_) return;
  std::lock_guard<std::mutex> one_waiter(epoch_lock_);
  for (int round = 0; round < 2; round++) {
    const uint32_t old = prefix().access_epoch.fetch_add(1, std::memory_order_seq_cst) & 1;
    uint64_t began = 0, looked = 0, now = 0;
    while (!counters_clear(old, now - looked > kDeadLookNs)) {
      sched_yield();
      if (now - looked > kDeadLookNs) looked = now;
      now = clock_.now_ns();
      if (began == 0) began = looked = now;
      if (now - began <= kAccessWaitMaxNs) continue;
      // Nobody waits for broken counters twice.
      for (AccessCounters& counters : inbound().access)
        counters.count[old].store(0, std::memory_order_relaxed);
      break;
    }
  }
}

void ShmFabric::after_fork_child() {
  for (const auto& channel : all_) channel->abandon();
  published_.make_private(SharedFile::Content::kKeep);
  inbound_.make_private(SharedFile::Content::kZero);
  if (wake_ >= 0) close(wake_);
  wake_ = -1;
  forked_ = true;
}

}  // namespace verbatim::wire::shm
