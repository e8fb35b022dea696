// SPDX-License-Identifier: MIT
#include "device/connectx/connectx_hca.h"

#include <algorithm>
#include <cerrno>

#include "base/fault_copy.h"
#include "device/connectx/esp_action.h"
#include "device/connectx/hardware_clock.h"
#include "device/connectx/limits.h"
#include "device/connectx/queue_checks.h"
#include "engine/traffic.h"
#include "wire/format/path_mtu.h"

namespace verbatim::connectx {

/// Entries of the GID table of an Ethernet port, most of them empty.
constexpr uint32_t kEthernetGids = 256;

namespace {

Outcome check_qp(const hw::QpSpec& spec, bool infiniband) {
  const bool target = spec.type == hw::QpType::kDct, raw = spec.type == hw::QpType::kRaw;
  const bool xrc_receiver = spec.type == hw::QpType::kXrcReceive;
  if (raw && infiniband)
    return Error{EOPNOTSUPP, "an InfiniBand port has no Ethernet frames for raw packet queue pairs"};
  const bool one_queue = spec.type == hw::QpType::kXrcSend;
  if (!xrc_receiver &&
      (!spec.pd || !spec.send_cq || (!spec.receive_cq && !one_queue) || (!spec.doorbell && !target)))
    return Error{EINVAL, "a queue pair needs a domain, two completion queues and a doorbell record"};
  if ((xrc_receiver || one_queue) &&
      (spec.srq || spec.receive.entries || (xrc_receiver && spec.send.entries)))
    return Error{EINVAL, "an XRC queue pair has no receive queue, and a receiver no send queue"};
  if (target && (!spec.srq || spec.send.entries || spec.receive.entries))
    return Error{EINVAL, "a DC target has a shared receive queue, and no queues of its own"};
  if (Outcome fits = spec.send.entries ? check_queue(spec.send, "send") : Outcome(Done{}); !fits) return fits;
  if (Outcome fits = spec.receive.entries ? check_queue(spec.receive, "receive") : Outcome(Done{}); !fits)
    return fits;
  if (spec.send.entries > 32768 || spec.receive.entries > 32768 ||
      (spec.send.entries && spec.send.stride != kBasicBlock))
    return Error{EINVAL,
                 "queue sizes are beyond the device's: 32768 blocks of 64 bytes, 32768 receive entries"};
  return Done{};
}

/// Without a send queue of its own the queue pair carries out rendezvous; with one, it may change the list.
void receive_tagged(QpObject& qp, TagList& tags, engine::QueuePairSpec& wanted) {
  const bool offloads = qp.send_entries == 0;
  qp.tagged = std::make_unique<TaggedReceiver>(tags, qp, offloads);
  wanted.receive = qp.tagged.get();
  wanted.sink = qp.tagged.get();
  if (offloads) {
    wanted.send = &qp.tagged->reads();
    wanted.sends_by_itself = true;
    wanted.send_entries = RendezvousQueue::kOutstandingMax;
  } else {
    qp.send.set_tags(&tags);
  }
}

}  // namespace

ConnectxHca::ConnectxHca(engine::Engine& engine, hw::EventSink& sink, const Identity& identity)
    : engine_(engine),
      sink_(sink),
      limits_(connectx7_limits(identity.node_guid)),
      first_lid_(identity.lid),
      sm_lid_(identity.sm_lid),
      first_pkeys_(identity.pkeys),
      protection_(numbers_, identity.crypto) {
  limits_.data_direct_path = identity.data_direct_path;
  limits_.lag_ports = identity.lag_ports;
  port_.lid = identity.lid;
  port_.gid = identity.gid;
  port_.device = identity.device;
  port_.outlet = identity.outlet;
  take_port_setting();
  if (port_.is_infiniband())
    limits_.max_pkeys = engine::kSubnetPkeys;
  else
    describe_frames(limits_);
  install_fault_guard();
  refresh_fault_guard();
}

// Peers must find nothing of a closed device: its queue pairs and keys go, whatever the program left behind.
ConnectxHca::~ConnectxHca() {
  while (QpObject* qp = qps_.first()) (void)destroy_qp(qp);
  commands_.forget_targets();
  while (MrObject* mr = mrs_list_.first()) (void)destroy_mr(mr);
  commands_.destroy_leftovers();
  while (CqObject* cq = cqs_.first())
    if (!destroy_cq(cq)) break;
  while (CounterObject* counter = counter_list_.first())
    if (!destroy_completion_counter(counter)) break;
  for (const auto& [object, place] : shown_) engine_.object_board().hide(place);
}

void ConnectxHca::count(int kind, int change) {
  engine_.published().header.objects[kind].fetch_add(static_cast<uint32_t>(change),
                                                     std::memory_order_relaxed);
}

hw::PortState ConnectxHca::port() {
  hw::PortState state;
  state.pkey_entries = limits_.max_pkeys;
  if (port_.is_infiniband()) {
    state.active = !port_.down;
    state.gid_entries = engine::kSubnetGids;
    state.active_mtu = state.max_mtu;
    state.lid = port_.lid;
    const uint16_t given = engine_.host().port_setting(port_.device).sm_lid;
    state.sm_lid = given ? given : sm_lid_;
    state.other_partitions =
        static_cast<uint32_t>(engine_.published()
                                  .ports[port_.device % engine::kPortsShown]
                                  .counts[static_cast<size_t>(engine::PortCount::kOtherPartition)]);
    return state;
  }
  state.active = engine_.host().link_up() && !port_.down;
  state.gid_entries = kEthernetGids;
  uint32_t smallest = UINT32_MAX;
  const uint32_t in_use = engine_.host().gid_count();
  for (uint32_t i = 0; i < in_use; i++) {
    const hw::GidEntry entry = engine_.host().gid(i);
    if (!entry.gid.is_zero() && entry.mtu != 0) smallest = std::min(smallest, entry.mtu);
  }
  state.active_mtu = roce::path_mtu_of(smallest);
  return state;
}

Expected<uint16_t> ConnectxHca::pkey(uint32_t index) {
  if (index >= limits_.max_pkeys)
    return Error{EINVAL, "the P_Key table has no entry " + std::to_string(index)};
  return port_.pkey(index);
}

hw::GidEntry ConnectxHca::gid(uint32_t index) {
  if (!port_.is_infiniband()) return engine_.host().gid(index);
  return index == 0 ? hw::GidEntry{port_.gid, GidType::kInfiniband} : hw::GidEntry{};
}

uint64_t ConnectxHca::hardware_clock() { return hardware_ticks(); }

Expected<hw::Cq*> ConnectxHca::create_cq(const hw::CqSpec& spec) {
  return face_of<hw::Cq>(make_cq(spec, sink_));
}

Expected<CqObject*> ConnectxHca::make_cq(const hw::CqSpec& spec, hw::EventSink& sink) {
  refresh_fault_guard();
  if (Outcome fits = check_queue(spec.ring, "completion"); !fits) return fits.error();
  if (!spec.doorbell || (spec.ring.stride != 64 && spec.ring.stride != 128))
    return Error{EINVAL, "a completion queue needs a doorbell record and entries of 64 or 128 bytes"};
  auto cq = std::make_unique<CqObject>(spec, sink);
  const std::scoped_lock hold(numbers_.lock, lock_);
  if (cq_count_ == limits_.max_cq || (cq->number = cq_numbers_.take()) == 0)
    return Error{ENOMEM, "all completion queues of the device are in use"};
  cq_count_++;
  cqs_.add(cq.get());
  numbers_.cqs.emplace(cq->number, cq.get());
  count(3, 1);
  return cq.release();
}

Outcome ConnectxHca::destroy_cq(hw::Cq* face) {
  auto* cq = static_cast<CqObject*>(face);
  const std::lock_guard hold_numbers(numbers_.lock);
  if (Outcome idle = cq->idle(); !idle) return idle;
  std::lock_guard<std::mutex> hold(lock_);
  cqs_.remove(cq);
  numbers_.cqs.erase(cq->number);
  cq_numbers_.give_back(cq->number);
  cq_count_--;
  delete cq;
  count(3, -1);
  return Done{};
}

Outcome ConnectxHca::resize_cq(hw::Cq* face, const hw::QueueMemory& ring) {
  if (Outcome fits = check_queue(ring, "completion"); !fits) return fits;
  if (ring.stride != 64 && ring.stride != 128)
    return Error{EINVAL, "completion queue entries have 64 or 128 bytes"};
  return static_cast<CqObject*>(face)->ring.resize(ring);
}

Outcome ConnectxHca::moderate_cq(hw::Cq* face, uint16_t count, uint16_t period_us) {
  if (period_us > limits_.max_cq_period_us)
    return Error{EINVAL,
                 "the moderation period is longer than " + std::to_string(limits_.max_cq_period_us) + " us"};
  if (face != nullptr) static_cast<CqObject*>(face)->ring.moderate(engine_, count, period_us);
  return Done{};
}

void ConnectxHca::arm_cq(hw::Cq* face) {
  static_cast<CqObject*>(face)->ring.arm();
  // The program is about to sleep: from now on peers wake the engine thread.
  if (!engine_.fabric().want_wake(true) && engine_.fabric().pending()) engine_.host().wake_engine_thread();
}

void ConnectxHca::ring_arm(hw::Cq* face) { static_cast<CqObject*>(face)->ring.arm_late(); }

Expected<hw::Qp*> ConnectxHca::create_qp(const hw::QpSpec& spec) {
  return face_of<hw::Qp>(make_qp(0, spec, sink_));
}

Expected<QpObject*> ConnectxHca::make_qp(uint16_t uid, const hw::QpSpec& spec, hw::EventSink& sink) {
  refresh_fault_guard();
  const bool target = spec.type == hw::QpType::kDct, raw = spec.type == hw::QpType::kRaw;
  const bool xrc_receiver = spec.type == hw::QpType::kXrcReceive;
  if (Outcome sound = check_qp(spec, port_.is_infiniband()); !sound) return sound.error();
  auto qp = std::make_unique<QpObject>(spec, sink);
  auto* srq = static_cast<SrqObject*>(spec.srq);
  engine::QueuePairSpec wanted;
  wanted.type = spec.type;
  wanted.domain = spec.pd ? spec.pd->number : 0;
  wanted.send = target || xrc_receiver ? nullptr : &qp->send;
  wanted.receive = srq                    ? static_cast<engine::ReceiveQueue*>(&srq->ring)
                   : spec.receive.entries ? &qp->receive
                                          : nullptr;
  wanted.shared_receive = srq != nullptr || xrc_receiver;
  wanted.sink = qp.get();
  wanted.events = qp.get();
  wanted.send_entries = spec.send.entries;
  if (srq && srq->tags) {
    if (spec.type != hw::QpType::kRc)
      return Error{EINVAL, "only queue pairs of type RC receive into a queue with a tag list"};
    receive_tagged(*qp, *srq->tags, wanted);
  }
  wanted.access_key = spec.access_key;
  wanted.port = &port_;
  wanted.errored_streams_max = spec.errored_streams_max;
  wanted.deaf_to_itself = spec.deaf_to_itself;
  wanted.frame_wishes = spec.frames;
  if (xrc_receiver) {
    const Expected<uint64_t> domain = hold_xrcd(uid, spec.xrcd);
    if (!domain) return domain.error();
    wanted.xrc_domain = *domain;
  }
  Expected<engine::QueuePair*> made = engine_.create_queue_pair(wanted);
  if (!made && xrc_receiver) let_go_of_xrcd(spec.xrcd);
  if (!made) return made.error();
  qp->queue_pair = *made;
  qp->number = (*made)->number();
  qp->send.set_qpn(qp->number);
  qp->send.set_infiniband(port_.is_infiniband());
  qp->send.set_keys(engine_.keys(), protection_, wanted.domain);
  if (qp->tagged) qp->tagged->start(engine_, **made, qp->number);
  if (srq) srq->users++;
  if (spec.pd) static_cast<PdObject*>(spec.pd)->users++;
  for (CqObject* cq : {qp->send_cq, qp->receive_cq}) {
    if (!cq) continue;
    std::lock_guard<std::mutex> hold(cq->lock);
    cq->users.push_back(qp.get());
  }
  if (limits_.lag_ports > 1 && wanted.send)
    qp->lag_port = static_cast<uint8_t>(1 + lag_turn_.fetch_add(1) % limits_.lag_ports);
  count(4, 1);
  const std::scoped_lock hold(numbers_.lock, lock_);
  qps_.add(qp.get());
  // To commands a raw packet queue pair would be several other objects.
  if (!raw) (target ? numbers_.dcts : numbers_.qps).emplace(qp->number, qp.get());
  return qp.release();
}

Outcome ConnectxHca::destroy_qp(hw::Qp* face) {
  auto* qp = static_cast<QpObject*>(face);
  {
    const std::scoped_lock hold(numbers_.lock, lock_);
    qps_.remove(qp);
    numbers_.qps.erase(qp->number);
    numbers_.dcts.erase(qp->number);
    commands_.retire(*qp);
  }
  // Whoever is failing the users of an overrun queue has finished with this one, or will pass it over.
  qp->ending = true;
  for (CqObject* cq : {qp->send_cq, qp->receive_cq})
    if (cq) std::lock_guard<std::mutex> pass(cq->lock);
  scheduling_.detach(*qp);
  engine_.destroy_queue_pair(qp->queue_pair);
  for (CqObject* cq : {qp->send_cq, qp->receive_cq}) {
    if (!cq) continue;
    std::lock_guard<std::mutex> hold(cq->lock);
    std::erase(cq->users, qp);
  }
  if (qp->srq) qp->srq->users--;
  if (qp->pd) qp->pd->users--;
  if (qp->xrcd) let_go_of_xrcd(qp->xrcd);
  delete qp;
  count(4, -1);
  return Done{};
}

Outcome ConnectxHca::check_rate(const hw::QpAttributes& attributes, uint32_t mask) const {
  const uint32_t rate = attributes.rate_limit;
  if (!(mask & engine::kQpRateLimit) || rate == 0) return Done{};
  if (rate >= limits_.pacing_min_kbps && rate <= limits_.pacing_max_kbps) return Done{};
  return Error{EINVAL, "the device paces from " + std::to_string(limits_.pacing_min_kbps) + " to " +
                           std::to_string(limits_.pacing_max_kbps) + " kbit/s"};
}

Outcome ConnectxHca::modify_qp(hw::Qp* face, const hw::QpAttributes& attributes, uint32_t mask) {
  auto* qp = static_cast<QpObject*>(face);
  if (Outcome paceable = check_rate(attributes, mask); !paceable) return paceable;
  Outcome done = qp->queue_pair->modify(attributes, mask);
  const bool reset = (mask & engine::kQpState) && attributes.state == hw::QpState::kReset;
  if (done && reset) {
    qp->send.reset();
    qp->receive.reset();
    if (qp->tagged) qp->tagged->reads().reset();
  }
  if (done && (reset || (mask & engine::kQpRateLimit)))
    scheduling_.pace(*qp, reset ? hw::QpAttributes{} : attributes);
  return done;
}

hw::QpExtras ConnectxHca::qp_extras(hw::Qp* face) {
  const auto* qp = static_cast<QpObject*>(face);
  return {qp->lag_port, qp->udp_source_port, qp->request_leaf, qp->response_leaf};
}

Outcome ConnectxHca::check_extras(const QpObject& qp, uint32_t mask, const hw::QpExtras& wanted) const {
  const hw::QpState state = qp.queue_pair->state();
  const bool raw_port = qp.type == hw::QpType::kRaw && mask == kLagPort;  // which is not of its state
  if (!raw_port && state != hw::QpState::kRts && (state != hw::QpState::kInit || mask != kLeaves))
    return Error{EOPNOTSUPP, "ports are changed in RTS only, leaves of scheduling trees in INIT and RTS"};
  if ((mask & kLagPort) != 0 && qp.lag_port == 0)
    return Error{EOPNOTSUPP, "the device's ports form no LAG, or the queue pair sends nothing"};
  if ((mask & kLagPort) != 0 && (wanted.lag_port == 0 || wanted.lag_port > limits_.lag_ports))
    return Error{EINVAL, "the LAG has ports 1 to " + std::to_string(limits_.lag_ports)};
  const bool rc = qp.type == hw::QpType::kRc, connected = rc || qp.type == hw::QpType::kUc;
  if ((mask & kUdpSourcePort) != 0 && port_.is_infiniband())
    return Error{EOPNOTSUPP, "packets of an InfiniBand port have no UDP port"};
  if ((mask & kUdpSourcePort) != 0 && !connected)
    return Error{EOPNOTSUPP, "only queue pairs of type RC and UC have a UDP port to change"};
  if ((mask & kLeaves) != 0 && wanted.response_leaf != 0 && !rc)
    return Error{EINVAL, "only a queue pair of type RC has responses to schedule"};
  return Done{};
}

Outcome ConnectxHca::change_qp(hw::Qp* face, uint32_t mask, const hw::QpExtras& wanted) {
  auto* qp = static_cast<QpObject*>(face);
  if (Outcome sound = check_extras(*qp, mask, wanted); !sound) return sound;
  if ((mask & kLeaves) != 0)
    if (Outcome attached = scheduling_.attach(*qp, wanted.request_leaf, wanted.response_leaf); !attached)
      return attached;
  if ((mask & kLagPort) != 0) qp->lag_port = wanted.lag_port;
  if ((mask & kUdpSourcePort) != 0) qp->udp_source_port = wanted.udp_source_port;
  return Done{};
}

hw::QpAttributes ConnectxHca::query_qp(hw::Qp* face) {
  return static_cast<QpObject*>(face)->queue_pair->query();
}

Expected<uint32_t> ConnectxHca::resting_send_position(hw::Qp* face) {
  return static_cast<QpObject*>(face)->queue_pair->resting_send_position();
}

Outcome ConnectxHca::reset_stream(hw::Qp* face, uint16_t stream) {
  return static_cast<QpObject*>(face)->queue_pair->reset_stream(stream);
}

void ConnectxHca::drain_on_signature_errors(hw::Qp* face) {
  static_cast<QpObject*>(face)->queue_pair->drain_on_key_errors(true);
}

Outcome ConnectxHca::attach_multicast(hw::Qp* face, const Gid& group) {
  return engine_.attach_multicast(static_cast<QpObject*>(face)->queue_pair, group);
}

Outcome ConnectxHca::detach_multicast(hw::Qp* face, const Gid& group) {
  return engine_.detach_multicast(static_cast<QpObject*>(face)->queue_pair, group);
}

Expected<uint32_t> ConnectxHca::create_flow(const hw::FlowDestination& to, const hw::FlowRule& rule) {
  if (to.tir == 0) return engine_.add_flow(static_cast<QpObject*>(to.qp)->queue_pair, rule);
  const std::lock_guard hold(numbers_.lock);
  const auto target = commands_.frame_target(to.tir);
  return target ? engine_.add_flow(*target, rule) : Expected<uint32_t>(target.error());
}

Expected<std::shared_ptr<hw::EspAction>> ConnectxHca::create_esp_action(const hw::EspSpec& spec) {
  if (!engine::AesGcm::takes(spec.key.size())) return Error{EINVAL, "AES keys have 16 or 32 bytes"};
  return std::shared_ptr<hw::EspAction>(std::make_shared<EspAction>(spec));
}

void ConnectxHca::ring_send(hw::Qp* face) { static_cast<QpObject*>(face)->queue_pair->ring(); }

void ConnectxHca::poll() {
  engine_.note_program_poll();
  engine_.progress();
  watched_queues_.look();
}

}  // namespace verbatim::connectx
