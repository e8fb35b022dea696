// SPDX-License-Identifier: MIT
#include "engine/engine.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>

#include "engine/dc_target.h"
#include "engine/gathering.h"
#include "engine/queue_pair.h"
#include "engine/traffic.h"
#include "wire/link/burst.h"

namespace verbatim::engine {

namespace {

constexpr uint32_t kArrivalsPerProgress = 256;
constexpr uint32_t kAcksHeldBack = 32;    ///< messages that one acknowledgement may wait for
constexpr uint32_t kAckLooks = 16;        ///< empty looks that one which nobody asked for waits
constexpr uint64_t kAnswerNs = 200'000;   ///< and one that the program's answer is to take along
constexpr uint64_t kTickNs = 50'000'000;  ///< how late a coarse timer may be noticed
constexpr uint32_t kPollsBeforeGivingWay = 32;
constexpr uint32_t kMulticastQpn = 0xffffff;

Published& published_of(wire::Fabric& fabric) { return *reinterpret_cast<Published*>(fabric.published()); }

/// Where the keys of a process begin: those of others begin elsewhere.
uint32_t first_key(Host& host) {
  constexpr uint32_t kApart = kKeysMax >> 10;  // of slots next to each other
  const Expected<uint32_t> slot = host.qpn_slot(0);
  return KeyTable::kFirstIndex + (slot ? *slot & 0x3ff : 0) * kApart;
}

void remove(std::vector<QueuePair*>& list, QueuePair* qp) {
  list.erase(std::remove(list.begin(), list.end(), qp), list.end());
}

bool is_reply(wire::Operation operation) {
  return operation == wire::Operation::kAck || operation == wire::Operation::kReadResponse ||
         operation == wire::Operation::kAtomicResponse || operation == wire::Operation::kCongestion;
}

}  // namespace

Engine::Engine(wire::Fabric& fabric, Host& host, const Clock& clock)
    : fabric_(fabric),
      host_(host),
      clock_(clock),
      published_(published_of(fabric)),
      keys_(published_, fabric, first_key(host)),
      connections_(static_cast<uint32_t>(clock.now_ns() >> kConnectionClockShift)) {
  published_.header.magic = PublishedHeader::kMagic;
}

Engine::~Engine() {
  for (auto& block : table_)
    for (uint32_t i = 0; block && i < kQpBlock; i++) delete block[i].load();
}

std::atomic<QueuePair*>* Engine::entry_of(uint32_t qpn) {
  const uint32_t slot = qpn_slot(qpn);
  if (slot == 0) return nullptr;
  for (uint32_t block = 0; block < kQpBlocksMax; block++)
    if (block_slots_[block].load(std::memory_order_acquire) == slot) return &table_[block][qpn_index(qpn)];
  return nullptr;
}

QueuePair* Engine::find(uint32_t qpn) {
  std::atomic<QueuePair*>* entry = entry_of(qpn);
  return entry ? entry->load(std::memory_order_acquire) : nullptr;
}

PublishedQp& Engine::published_entry(uint32_t qpn) {
  uint32_t block = 0;
  while (block_slots_[block].load(std::memory_order_relaxed) != qpn_slot(qpn)) block++;
  return published_.qps[block * kQpBlock + qpn_index(qpn)];
}

Expected<uint32_t> Engine::take_number() {
  constexpr uint32_t kFirstIndex =
      16;  // numbers 0 and 1 have a meaning of their own; leave a margin in every slot
  // Freed numbers rest for a while, so that late packets for the old owner find nobody.
  constexpr size_t kRestingMax = 1024;
  if (free_numbers_.size() > kRestingMax ||
      (blocks_ == kQpBlocksMax && !free_numbers_.empty() && next_index_ == kQpBlock)) {
    const uint32_t number = free_numbers_.front();
    free_numbers_.erase(free_numbers_.begin());
    return number;
  }
  if (blocks_ == 0 || next_index_ == kQpBlock) {
    if (blocks_ == kQpBlocksMax) return Error{ENOMEM, "all queue pair numbers of this process are in use"};
    Expected<uint32_t> slot = host_.qpn_slot(blocks_);
    if (!slot) return slot.error();
    table_[blocks_] = std::make_unique<std::atomic<QueuePair*>[]>(kQpBlock);
    published_.header.block_slots[blocks_].store(*slot, std::memory_order_relaxed);
    block_slots_[blocks_].store(*slot, std::memory_order_release);
    blocks_++;
    next_index_ = kFirstIndex;
  }
  published_.header.qp_ends[blocks_ - 1].store(next_index_ + 1, std::memory_order_release);
  return make_qpn(block_slots_[blocks_ - 1].load(std::memory_order_relaxed), next_index_++);
}

Expected<uint32_t> Engine::reserve_number() {
  std::lock_guard<std::mutex> hold(table_lock_);
  return take_number();
}

void Engine::release_number(uint32_t number) {
  std::lock_guard<std::mutex> hold(table_lock_);
  free_numbers_.push_back(number);
}

Expected<QueuePair*> Engine::create_queue_pair(const QueuePairSpec& spec) {
  std::lock_guard<std::mutex> hold(table_lock_);
  Expected<uint32_t> number = take_number();
  if (!number) return number.error();
  PublishedQp& shown = published_entry(*number);
  PublishedTraffic& traffic = published_.traffic[&shown - published_.qps];
  settle_traffic(published_, traffic, spec.port->device);
  auto* qp = new QueuePair(*this, spec, *number, shown, traffic);
  entry_of(*number)->store(qp, std::memory_order_release);
  if (spec.type == QpType::kDct) {
    std::lock_guard<SpinLock> hold_list(list_lock_);
    targets_.push_back(qp);
  }
  if (spec.type == QpType::kXrcReceive) {
    std::lock_guard<std::mutex> hold_receivers(xrc_lock_);
    xrc_receivers_.push_back(qp);
  }
  return qp;
}

void Engine::destroy_queue_pair(QueuePair* qp) {
  qp->part();
  const uint32_t number = qp->number();
  published_entry(number).qpn.store(0, std::memory_order_release);
  published_entry(number).state.store(0, std::memory_order_release);
  {
    std::lock_guard<std::mutex> hold(groups_lock_);
    for (size_t i = attachments_.size(); i-- > 0;)
      if (attachments_[i].qp == qp) {
        (void)host_.leave(attachments_[i].group);
        attachments_.erase(attachments_.begin() + static_cast<std::ptrdiff_t>(i));
      }
  }
  if (qp->type() == QpType::kRaw) forget_flows(qp);
  if (qp->type() == QpType::kXrcReceive) {
    std::lock_guard<std::mutex> hold(xrc_lock_);
    std::erase(xrc_receivers_, qp);
  }
  entry_of(number)->store(nullptr, std::memory_order_release);
  AccessGuard::wait();
  fabric_.wait_for_peers();
  forget(*qp);
  if (qp->target()) qp->target()->close();
  delete qp;
  release_number(number);
}

// With the progress lock held nobody is running it from one of the lists.
void Engine::forget(QueuePair& qp) {
  std::lock_guard<SpinLock> hold_progress(progress_lock_);
  forget_held(qp);
}

void Engine::forget_held(QueuePair& qp) {
  std::lock_guard<SpinLock> hold(list_lock_);
  for (auto* list : {&ready_, &roomless_, &timed_, &errored_, &targets_}) remove(*list, &qp);
  std::erase_if(owers_, [&qp](Responder* responder) { return &responder->queue_pair() == &qp; });
}

// Called in every empty poll of a program: looks before it takes the lock.
uint32_t Engine::progress() {
  const bool quiet = !any_owers_.load(std::memory_order_relaxed) &&
                     !any_ready_.load(std::memory_order_relaxed) &&
                     !any_errored_.load(std::memory_order_relaxed) &&
                     deadline_ns_.load(std::memory_order_relaxed) == kNever && !fabric_.worth_polling();
  if (quiet || !progress_lock_.try_lock()) {
    rest();
    return 0;
  }
  const uint32_t done = progress_locked(true);
  progress_lock_.unlock();
  return done;
}

// The peer, or the engine thread with the lock, may need this core or this processor.
void Engine::rest() {
  const uint32_t vain = vain_polls_.load(std::memory_order_relaxed) + 1;
  vain_polls_.store(vain, std::memory_order_relaxed);
  bool give_way = false;
  if (vain % kPollsBeforeGivingWay == 0) {
    AccessScope scope;
    give_way = fabric_.shares_processor();
  }
  give_way ? static_cast<void>(sched_yield()) : spin_pause();
}

// Acknowledgements are cumulative, so they are held back while more messages wait. One that the requester did
// not ask for waits a little longer, if the caller is going to look again soon.
bool Engine::owed_is_due(bool arrived, bool patient) {
  if (owed_when_ == Owed::kAtOnce || owed_ >= kAcksHeldBack) return true;
  if (arrived) owed_looks_ = 0;
  if (fabric_.pending()) return false;
  if (owed_when_ == Owed::kAnswer && !patient) {
    const uint64_t now = clock_.now_ns();
    if (answer_until_ns_ == 0) answer_until_ns_ = now + kAnswerNs;
    return now >= answer_until_ns_;
  }
  if (owed_when_ == Owed::kSoon || !patient) return true;
  return owed_when_ == Owed::kLater ? ++owed_looks_ >= kAckLooks : !arrived;
}

uint32_t Engine::progress_locked(bool patient) {
  uint32_t done = fabric_.poll(*this, kArrivalsPerProgress);
  // The engine thread finds nothing again and again while the program makes its answer.
  if (patient || done > 0) looks_.store(looks() + 1, std::memory_order_relaxed);
  if (any_owers_.load(std::memory_order_relaxed) && owed_is_due(done > 0, patient)) done += send_owed();
  if (any_ready_.load(std::memory_order_acquire)) done += run_ready();
  if (any_errored_.load(std::memory_order_relaxed)) flush_errored();
  const uint64_t deadline = deadline_ns_.load(std::memory_order_relaxed);
  if (deadline != kNever) {
    const uint64_t now = clock_.now_ns();
    if (now >= deadline) run_timers(now);
  }
  return done;
}

uint64_t Engine::step(uint64_t now_ns) {
  std::lock_guard<SpinLock> hold(progress_lock_);
  if (progress_locked(false) > 0) return now_ns;
  const uint64_t next = tick_locked(now_ns);
  const bool awaits_answer = any_owers_.load(std::memory_order_relaxed) && owed_when_ == Owed::kAnswer;
  return awaits_answer ? std::min(next, answer_until_ns_) : next;
}

uint64_t Engine::tick(uint64_t now_ns) {
  std::unique_lock<SpinLock> hold(progress_lock_, std::try_to_lock);
  if (!hold) return kNever;
  return tick_locked(now_ns);
}

uint64_t Engine::tick_locked(uint64_t now_ns) {
  bool timed;
  {
    std::lock_guard<SpinLock> hold_list(list_lock_);
    timed = !timed_.empty();
  }
  const uint64_t exact = deadline_ns_.load(std::memory_order_relaxed);
  const bool due = timed && now_ns >= last_tick_ns_ + kTickNs;
  if (!due && now_ns < exact) return timed ? std::min(exact, last_tick_ns_ + kTickNs) : exact;
  if (due) last_tick_ns_ = now_ns;
  return run_timers(now_ns);
}

// Looks at alarms and at every queue pair that has a timer. Returns the earliest instant that one of them
// named.
uint64_t Engine::run_timers(uint64_t now_ns) {
  {
    std::lock_guard<SpinLock> hold(list_lock_);
    running_.swap(timed_);
    deadline_ns_.store(kNever, std::memory_order_relaxed);
  }
  uint64_t earliest = kNever, exact = alarms_.run(now_ns);
  for (QueuePair*& qp : running_) {
    const uint64_t next = qp->requester().on_timer(now_ns);
    earliest = std::min(earliest, next);
    if (next == kNever)
      qp = nullptr;
    else if (next < now_ns + kTickNs)
      exact = std::min(exact, next);
  }
  std::lock_guard<SpinLock> hold(list_lock_);
  for (QueuePair* qp : running_)
    if (qp) timed_.push_back(qp);
  running_.clear();
  if (exact < deadline_ns_.load(std::memory_order_relaxed))
    deadline_ns_.store(exact, std::memory_order_relaxed);
  return std::min(earliest, deadline_ns_.load(std::memory_order_relaxed));
}

void Engine::set_timer(QueuePair& qp, uint64_t deadline_ns, bool listed) {
  bool wake = false;
  {
    std::lock_guard<SpinLock> hold(list_lock_);
    if (!listed) {
      wake = timed_.empty();
      timed_.push_back(&qp);
    }
    if (deadline_ns != 0 && deadline_ns < deadline_ns_.load(std::memory_order_relaxed)) {
      deadline_ns_.store(deadline_ns, std::memory_order_relaxed);
      wake = true;
    }
  }
  if (wake) host_.wake_engine_thread();
}

void Engine::set_alarm(Alarm& alarm, uint64_t at_ns) {
  alarms_.set(alarm, at_ns);
  {
    std::lock_guard<SpinLock> hold(list_lock_);
    if (at_ns >= deadline_ns_.load(std::memory_order_relaxed)) return;
    deadline_ns_.store(at_ns, std::memory_order_relaxed);
  }
  host_.wake_engine_thread();
}

// False: it is on the list already.
bool Engine::list_ready(QueuePair& qp) {
  if (qp.scheduled.exchange(true, std::memory_order_acq_rel)) return false;
  std::lock_guard<SpinLock> hold(list_lock_);
  ready_.push_back(&qp);
  any_ready_.store(true, std::memory_order_release);
  return true;
}

void Engine::schedule(QueuePair& qp) {
  if (list_ready(qp) || any_quiet_.load(std::memory_order_acquire)) host_.wake_engine_thread();
}

void Engine::schedule_quietly(QueuePair& qp) {
  any_quiet_.store(true, std::memory_order_release);
  (void)list_ready(qp);
}

uint32_t Engine::run_ready() {
  {
    std::lock_guard<SpinLock> hold(list_lock_);
    running_.swap(ready_);
    any_ready_.store(false, std::memory_order_relaxed);
    any_quiet_.store(false, std::memory_order_relaxed);
  }
  const uint32_t count = static_cast<uint32_t>(running_.size());
  for (QueuePair* qp : running_) {
    qp->scheduled.store(false, std::memory_order_release);
    qp->run_ready();
  }
  running_.clear();
  return count;
}

void Engine::owe_ack(Responder& responder, Owed when) {
  owed_++;
  owed_when_ = std::max(owed_when_, when);
  answer_until_ns_ = 0;
  if (responder.owing) return;
  responder.owing = true;
  owers_.push_back(&responder);
  any_owers_.store(true, std::memory_order_relaxed);
}

uint32_t Engine::send_owed() {
  answering_.swap(owers_);
  any_owers_.store(false, std::memory_order_relaxed);
  owed_ = owed_looks_ = 0;
  owed_when_ = Owed::kLater;
  const uint32_t count = static_cast<uint32_t>(answering_.size());
  std::lock_guard<SpinLock> hold(leaving_lock_);
  {
    wire::Burst burst;
    for (Responder* responder : answering_) {
      const uint32_t room = room_epoch();
      if (!responder->send_owed(true)) wait_for_room(responder->queue_pair(), room);
    }
  }
  for (Responder* responder : answering_) {
    DcTarget* target = responder->queue_pair().target();
    responder->note_left();
    if (target) target->note_answered();
  }
  answering_.clear();
  return count;
}

void Engine::wait_for_room(QueuePair& qp, uint32_t epoch) {
  {
    std::lock_guard<SpinLock> hold(list_lock_);
    if (epoch == room_epoch_.load(std::memory_order_relaxed)) {
      if (!qp.waits_for_room) roomless_.push_back(&qp);
      qp.waits_for_room = true;
      return;
    }
  }
  schedule(qp);
}

void Engine::on_room(wire::Channel&) {
  std::lock_guard<SpinLock> hold(list_lock_);
  room_epoch_.fetch_add(1, std::memory_order_release);
  for (QueuePair* qp : roomless_) {
    qp->waits_for_room = false;
    if (!qp->scheduled.exchange(true, std::memory_order_acq_rel)) ready_.push_back(qp);
  }
  roomless_.clear();
  if (!ready_.empty()) any_ready_.store(true, std::memory_order_release);
}

void Engine::on_gone(wire::Channel& channel) {
  on_room(channel);
  std::vector<QueuePair*> targets;
  {
    std::lock_guard<SpinLock> hold(list_lock_);
    targets = targets_;
  }
  for (QueuePair* qp : targets) qp->target()->forget(channel);
  xrc_guests_.forget(channel);
  {
    std::lock_guard<std::mutex> hold(xrc_lock_);
    for (QueuePair* qp : xrc_receivers_) qp->responder().relay_gone(channel);
  }
  // Whoever has something outstanding learns of it at once rather than at the next tick.
  std::lock_guard<SpinLock> hold(list_lock_);
  if (!timed_.empty()) deadline_ns_.store(0, std::memory_order_relaxed);
}

uint32_t Engine::next_connection() {
  const uint32_t number = connections_.fetch_add(1, std::memory_order_relaxed) + 1;
  return number != 0 ? number : next_connection();
}

void Engine::note_errored(QueuePair& qp) {
  std::lock_guard<SpinLock> hold(list_lock_);
  if (std::find(errored_.begin(), errored_.end(), &qp) == errored_.end()) errored_.push_back(&qp);
  any_errored_.store(true, std::memory_order_relaxed);
}

// A queue pair stays on this list while it is in the error state: posting to a receive queue rings no
// doorbell.
void Engine::flush_errored() {
  {
    std::lock_guard<SpinLock> hold(list_lock_);
    std::erase_if(errored_, [](QueuePair* qp) { return qp->state() != QpState::kError; });
    running_ = errored_;
    any_errored_.store(!errored_.empty(), std::memory_order_relaxed);
  }
  for (QueuePair* qp : running_) qp->responder().flush_posted();
  running_.clear();
}

void Engine::show_port(uint32_t device, bool down) {
  if (device >= kPortsShown) return;
  std::atomic<uint32_t>& shown = published_.header.ports_down;
  down ? shown.fetch_or(1u << device) : shown.fetch_and(~(1u << device));
}

void Engine::enter() {
  AccessGuard::enter();
  Gathering::begin();
}

void Engine::leave() {
  Gathering::end();
  AccessGuard::leave();
}

bool Engine::on_segment(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload,
                        wire::Segment* answer) {
  if (segment.flags & (wire::kFrame | wire::kRelayed)) [[unlikely]] {
    if (segment.has(wire::kFrame)) return deliver_frame(segment, payload);
    if (segment.transport == wire::Transport::kXrc && !answer) xrc_guests_.on_request(from, segment, payload);
    return false;
  }
  if (segment.dest_qpn == kMulticastQpn) return deliver_multicast(from, segment, payload);
  QueuePair* qp = find(segment.dest_qpn);
  if (qp && qp->spec().port->down.load(std::memory_order_relaxed)) [[unlikely]]
    return false;  // lost at the port
  if (qp && is_reply(segment.operation)) {
    if (qp->type() == QpType::kXrcReceive) [[unlikely]]
      qp->responder().on_relayed(from, segment, payload);
    else
      qp->requester().on_reply(from, segment, payload);
    return false;
  }
  // Datagrams may be for another port: their receiver looks at that first.
  if (qp && segment.transport != wire::Transport::kUd && qp->drops_foreign(segment)) [[unlikely]]
    qp = nullptr;
  if (qp && segment.has(wire::kAcknowledges)) qp->requester().on_acknowledgement(from, segment);
  if (qp) return qp->on_request(from, segment, payload, answer);
  return !is_reply(segment.operation) && answer_nobody(from, segment, answer);
}

void Engine::on_damaged(uint32_t dest_qpn) {
  const QueuePair* qp = find(dest_qpn);
  count_port(published_, qp ? qp->spec().port->device : 0, PortCount::kDamaged);
}

bool Engine::answer_nobody(wire::Channel& from, const wire::Segment& segment, wire::Segment* answer) {
  if (!wire::is_reliable(segment.transport) || segment.operation == wire::Operation::kDisconnect ||
      from.is_wire())
    return false;
  wire::Segment nobody;
  nobody.operation = wire::Operation::kAck;
  nobody.transport = segment.transport;
  nobody.flags = wire::kFirst | wire::kLast;
  nobody.syndrome = wire::kNakNoQueue;
  nobody.dest_qpn = segment.src_qpn;
  nobody.src_qpn = segment.dest_qpn;
  nobody.psn = segment.psn;
  if (segment.transport == wire::Transport::kDc) {
    nobody.access_key = 0;
    nobody.connection = segment.connection;
  }
  nobody.srqn = 0;
  if (answer)
    *answer = nobody;
  else
    from.send(nobody, nullptr, 0, false, nullptr);
  return true;
}

}  // namespace verbatim::engine
