// SPDX-License-Identifier: MIT
// The requester's direct path: one-sided operations carried out on the target's memory by the requester
// itself. It is only ever an optimisation: whatever does not fit is sent as a request, and the responder
// finds out why.
#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

bool receives(uint8_t state) {
  return state == static_cast<uint8_t>(QpState::kRtr) || state == static_cast<uint8_t>(QpState::kRts) ||
         state == static_cast<uint8_t>(QpState::kSqd);
}

}  // namespace

// What the peer's process shows of its queue pair, also when it has ended; nullptr: nothing.
const PublishedQp* Requester::peer_entry() const {
  const std::byte* memory = channel_->testament();
  return memory ? find_published(*reinterpret_cast<const Published*>(memory), peer_.place.qpn) : nullptr;
}

// What the peer's queue pair had taken in was received, whether or not the acknowledgement still got out.
void Requester::acknowledge_received(const PublishedQp* peer) {
  if (!peer || window_count_ == 0 || dynamic_ || !reliable_) return;
  if (peer->qpn.load(kRelaxed) != peer_.place.qpn || peer->remote_qpn.load(kRelaxed) != qp_.number()) return;
  acknowledge(wire::psn_add(peer->expected_psn.load(std::memory_order_acquire), wire::kPsnMask));
}

// The peer's process has ended. Its published tables outlive it.
void Requester::lose_channel() {
  if (!channel_) return;
  acknowledge_received(peer_entry());
  channel_ = nullptr;
}

// The peer's process lives, but no queue pair there takes the requests that are outstanding. It has said so,
// and that found no room, or comes yet: so only the second look in a row counts.
bool Requester::is_ignored() {
  const PublishedQp* peer = peer_entry();
  const bool listens = !peer || (receives(peer->state.load(std::memory_order_acquire)) &&
                                 peer->qpn.load(kRelaxed) == peer_.place.qpn &&
                                 (dynamic_ || peer->remote_qpn.load(kRelaxed) == qp_.number()));
  if (listens || !unheard_) {
    unheard_ = !listens;
    return false;
  }
  unheard_ = false;
  acknowledge_received(peer);
  return true;
}

// Whether it would take a request of this end for one of its peer.
inline bool Requester::is_connected_here(const PublishedQp& peer) {
  if (peer.qpn.load(kRelaxed) != peer_.place.qpn || peer.path_mtu.load(kRelaxed) != qp_.attributes().path_mtu)
    return false;
  if (dynamic_)
    return peer.transport.load(kRelaxed) == static_cast<uint8_t>(QpType::kDct) &&
           peer.access_key.load(kRelaxed) == peer_.access_key &&
           same_partition(peer_.place.pkey, peer.pkey.load(kRelaxed));
  if (peer.remote_qpn.load(kRelaxed) != qp_.number() ||
      peer.transport.load(kRelaxed) != static_cast<uint8_t>(qp_.type()))
    return false;
  const uint32_t generation = peer.generation.load(std::memory_order_acquire);
  if (peer_verified_ && generation == peer_generation_) return true;
  // Both ends must agree on the first sequence number, and be of one partition, as every packet would show on
  // a wire.
  if (peer.first_psn.load(kRelaxed) != first_psn_ ||
      !same_partition(peer_.place.pkey, peer.pkey.load(kRelaxed)))
    return false;
  peer_verified_ = true;
  peer_generation_ = generation;
  return true;
}

bool Requester::peer_allows(const Message& message, const wire::Channel& channel, uint64_t& address) {
  const std::byte* memory = channel.published();
  if (!memory) return false;
  const Published& tables = *reinterpret_cast<const Published*>(memory);
  const PublishedQp* peer = find_published(tables, peer_.place.qpn);
  if (!peer || !receives(peer->state.load(std::memory_order_acquire)) || !is_connected_here(*peer))
    return false;
  if (const uint32_t down = tables.header.ports_down.load(kRelaxed)) [[unlikely]]
    if (down >> (peer->device.load(kRelaxed) % 32) & 1) return false;
  const bool read = message.work.opcode == Opcode::kRead;
  const uint32_t need = read ? kRemoteRead : kRemoteWrite;
  if (!(peer->access.load(kRelaxed) & need) || (read && peer->max_dest_rd_atomic.load(kRelaxed) == 0))
    return false;
  if (message.length == 0) return true;
  KeyView view;
  if (!read_key(tables, message.work.rkey, view) || (view.access & kOwnersOnly)) return false;
  if (check_key(view, peer->domain.load(kRelaxed), need, message.work.remote_address, message.length))
    return false;
  address = view.address + (message.work.remote_address - view.start);
  return true;
}

bool Requester::try_direct(Message& message) {
  const uint32_t ticket = channel_->enter_access();
  uint64_t address = 0;
  bool moved = peer_allows(message, *channel_, address);
  if (message.scattered) [[unlikely]]
    moved = moved && move_scattered(message, address);
  else if (moved && message.length > 0)
    moved = message.work.opcode == Opcode::kRead
                ? channel_->read_direct(address, message.pieces, message.count)
                : channel_->write_direct(address, message.pieces, message.count);
  channel_->leave_access(ticket);
  return moved;
}

// The responder in this process allowed the read, yet the bytes could not be moved: whose memory is missing?
Status Requester::diagnose_read(Message& message) {
  uint64_t address = 0;
  const uint32_t ticket = channel_->enter_access();
  Status status = Status::kRemoteAccess;
  if (peer_allows(message, *channel_, address)) {
    constexpr uint64_t kPage = 4096;
    char probe;
    const wire::Piece here{&probe, 1};
    status = Status::kLocalProtection;
    for (uint64_t at = 0; at < message.length && status == Status::kLocalProtection;
         at += kPage - (address + at) % kPage)
      if (!channel_->read_direct(address + at, &here, 1)) status = Status::kRemoteAccess;
  }
  channel_->leave_access(ticket);
  return status;
}

}  // namespace verbatim::engine
