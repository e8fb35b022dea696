// SPDX-License-Identifier: MIT
#include "testing/engine_world.h"

#include <fcntl.h>

namespace verbatim::testing {

using namespace engine;

Expected<wire::PeerHandles> World::introduce(uint32_t slot) {
  if (slot_generation(slot) == 0) return Error{ESRCH, "nobody has this slot"};
  wire::PeerHandles handles = members_[slot].fabric->handles();
  // Through /proc, so that closing the copy does not drop the owner's lock on an open file of its own.
  handles.published = fcntl(handles.published, F_DUPFD_CLOEXEC, 0);
  handles.inbound = fcntl(handles.inbound, F_DUPFD_CLOEXEC, 0);
  handles.wake = fcntl(handles.wake, F_DUPFD_CLOEXEC, 0);
  handles.generation = members_[slot].generation;
  handles.pid = static_cast<uint32_t>(getpid());
  handles.primary_slot = slot;
  return handles;
}

uint32_t World::members(const Gid&, uint32_t* slots, uint32_t max) const {
  uint32_t count = 0;
  for (uint32_t slot = 0; slot < members_.size() && count < max; slot++)
    if (members_[slot].generation) slots[count++] = slot;
  return count;
}

void World::add(uint32_t slot, wire::shm::ShmFabric& fabric) {
  if (members_.size() <= slot) members_.resize(slot + 1, Member{nullptr, 0});
  members_[slot] = {&fabric, next_generation_++};
  fabric.attach(*this, slot, members_[slot].generation);
}

Node::Node(World& world, uint32_t slot, const Clock& clock) : world_(world), slot_(slot) {
  install_fault_guard();
  auto fabric = wire::shm::ShmFabric::create(sizeof(Published), clock);
  if (!fabric) throw std::runtime_error(fabric.error().reason);
  fabric_ = std::move(*fabric);
  world.add(slot, *fabric_);
  engine_ = std::make_unique<Engine>(*fabric_, *this, clock);
  fabric_->set_receiver(*engine_);
}

Node::~Node() { world_.remove(slot_); }

GidEntry Node::gid(uint32_t index) const {
  GidEntry entry;
  if (index == 0) entry.gid = world_gid();
  return entry;
}

Expected<uint32_t> Node::qpn_slot(uint32_t block) {
  if (block == 0) return slot_;
  return Error{ENOMEM, "one block is all there is in a test"};
}

TestQp::TestQp(Node& node, QpType type, const Dynamic& dynamic, uint32_t domain, uint32_t depth)
    : node_(node) {
  QueuePairSpec spec;
  spec.type = type;
  spec.domain = domain;
  spec.send = this;
  spec.receive = this;
  spec.sink = this;
  spec.events = this;
  spec.send_entries = depth;
  spec.access_key = dynamic.access_key;
  spec.errored_streams_max = dynamic.errored_streams_max;
  spec.shared_receive = type == QpType::kDct;
  qp_ = *node.engine().create_queue_pair(spec);
  attributes.port = 1;
  attributes.access = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
  attributes.path_mtu = 1024;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
  attributes.timeout = 14;
  attributes.retry_count = attributes.rnr_retry = 7;
  attributes.min_rnr_timer = 1;
  attributes.qkey = 0x11111111;
  attributes.path.dgid = world_gid();
  attributes.path.is_global = true;
}

void TestQp::step(QpState to, uint32_t mask) {
  attributes.state = to;
  if (Outcome done = qp_->modify(attributes, mask | kQpState); !done)
    throw std::runtime_error(done.error().reason);
}

void TestQp::start() {
  const bool target = qp_->type() == QpType::kDct;
  step(QpState::kInit, kQpPkeyIndex | kQpPort | (target ? uint32_t{kQpAccessFlags} : 0));
  step(QpState::kRtr, kQpAv | kQpPathMtu | (target ? uint32_t{kQpMinRnrTimer} : 0));
  if (!target) step(QpState::kRts, kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpSqPsn | kQpMaxQpRdAtomic);
}

void TestQp::connect(const TestQp& peer, uint32_t send_psn, uint32_t receive_psn) {
  const bool rc = qp_->type() == QpType::kRc, ud = qp_->type() == QpType::kUd;
  attributes.dest_qpn = peer.number();
  attributes.sq_psn = send_psn;
  attributes.rq_psn = receive_psn;
  step(QpState::kInit, kQpPkeyIndex | kQpPort | (ud ? kQpQkey : kQpAccessFlags));
  step(QpState::kRtr,
       ud ? 0 : kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | (rc ? kQpMaxDestRdAtomic | kQpMinRnrTimer : 0));
  step(QpState::kRts, kQpSqPsn | (rc ? kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic : 0));
}

void TestQp::post_receive(void* to, uint32_t length, uint32_t lkey) {
  ReceiveWork work;
  work.index = posted_++;
  work.sge_count = 1;
  work.sges[0] = {reinterpret_cast<uint64_t>(to), length, lkey};
  receives.push_back(work);
}

SendQueue::Fetch TestQp::fetch(uint32_t index, SendWork& work, uint32_t& next, const char*&) {
  if (index >= sends.size()) return Fetch::kNone;
  work = sends[index];
  next = index + 1;
  return Fetch::kWork;
}

ReceiveQueue::Take TestQp::take(ReceiveWork& work, const char*&) {
  if (receives.empty()) return Take::kNone;
  work = receives.front();
  receives.pop_front();
  return Take::kWork;
}

TestMemory::TestMemory(Node& node, size_t bytes, uint32_t access, uint32_t domain)
    : node_(node), data_(bytes) {
  key_ = *node.engine().keys().create({domain, access, address(), bytes, address()});
}

TestMemory::~TestMemory() { node_.engine().keys().destroy(key_); }

}  // namespace verbatim::testing
