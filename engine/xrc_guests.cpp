// SPDX-License-Identifier: MIT
#include "engine/xrc_guests.h"

#include "engine/engine.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

/// What the process at the other end shows of its receiver; nullptr: it has none that receives.
const PublishedQp* receiver_of(wire::Channel& from, uint32_t qpn) {
  const std::byte* memory = from.testament();
  const PublishedQp* shown =
      memory ? find_published(*reinterpret_cast<const Published*>(memory), qpn) : nullptr;
  if (!shown || shown->qpn.load(kRelaxed) != qpn ||
      shown->transport.load(kRelaxed) != static_cast<uint8_t>(QpType::kXrcReceive))
    return nullptr;
  const auto state = static_cast<QpState>(shown->state.load(std::memory_order_acquire));
  return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd ? shown : nullptr;
}

}  // namespace

XrcGuests::XrcGuests(Engine& engine) : engine_(engine) {}
XrcGuests::~XrcGuests() = default;

void XrcGuests::on_request(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload) {
  const std::lock_guard<std::mutex> hold(lock_);
  const uint32_t qpn = segment.dest_qpn;
  const auto found = guests_.find({&from, qpn});
  Guest* guest = found != guests_.end() ? &found->second : nullptr;
  if (segment.operation == wire::Operation::kDisconnect) {
    if (guest && guest->qp) guest->qp->responder().reconnect(qpn, 0, 0);
    return;
  }
  if (segment.has(wire::kOpens)) guest = open(from, qpn, segment.psn);
  if (!guest || !guest->qp)
    Engine::answer_nobody(from, segment, nullptr);
  else
    guest->qp->responder().on_request(from, segment, payload, nullptr);
}

// With the lock held. Nullptr: there is no such receiver.
XrcGuests::Guest* XrcGuests::open(wire::Channel& from, uint32_t qpn, uint32_t psn) {
  const PublishedQp* receiver = receiver_of(from, qpn);
  if (!receiver) return nullptr;
  Guest& guest = guests_[{&from, qpn}];
  const bool stale = guest.qp && (guest.generation != receiver->generation.load(kRelaxed) ||
                                  guest.qp->state() == QpState::kError);
  if (stale) end(guest);
  if (!guest.qp) make(guest, *receiver, qpn);
  guest.qp->responder().reconnect(qpn, 0, psn);
  return &guest;
}

void XrcGuests::make(Guest& guest, const PublishedQp& receiver, uint32_t qpn) {
  QueuePairSpec spec;
  spec.type = QpType::kXrcReceive;
  spec.xrc_domain = receiver.xrc_domain.load(kRelaxed);
  spec.guest_of = receiver.remote_qpn.load(kRelaxed);
  guest.generation = receiver.generation.load(kRelaxed);
  if (!guest.published) guest.published = std::make_unique<PublishedQp>();
  if (!guest.traffic) guest.traffic = std::make_unique<PublishedTraffic>();
  guest.qp = std::make_unique<QueuePair>(engine_, spec, qpn, *guest.published, *guest.traffic);
  QpAttributes attributes;
  attributes.access = receiver.access.load(kRelaxed);
  attributes.path_mtu = receiver.path_mtu.load(kRelaxed);
  attributes.max_dest_rd_atomic = static_cast<uint8_t>(receiver.max_dest_rd_atomic.load(kRelaxed));
  attributes.min_rnr_timer = static_cast<uint8_t>(receiver.min_rnr_timer.load(kRelaxed));
  attributes.dest_qpn = qpn;
  guest.qp->begin_as_guest(attributes);
}

void XrcGuests::end(Guest& guest) {
  engine_.forget_held(*guest.qp);
  guest.qp.reset();
}

void XrcGuests::forget(wire::Channel& gone) {
  const std::lock_guard<std::mutex> hold(lock_);
  for (auto at = guests_.begin(); at != guests_.end();) {
    const auto next = std::next(at);
    if (at->first.first == &gone) {
      if (at->second.qp) {
        at->second.qp->responder().reconnect(at->first.second, 0, 0);  // ends what has begun
        end(at->second);
      }
      guests_.erase(at);
    }
    at = next;
  }
}

void XrcGuests::leave_shared_queue(uint32_t number) {
  const std::lock_guard<std::mutex> hold(lock_);
  for (auto& [key, guest] : guests_)
    if (guest.qp) guest.qp->responder().leave_shared_queue(number);
}

}  // namespace verbatim::engine
