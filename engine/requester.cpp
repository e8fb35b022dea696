// SPDX-License-Identifier: MIT
#include "engine/requester.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"
#include "engine/service.h"
#include "engine/traffic.h"
#include "wire/link/burst.h"

namespace verbatim::engine {

namespace {

constexpr uint32_t kWindowAtFirst = 8;          ///< entries: most queue pairs need no more
constexpr uint32_t kRequestsPerRun = 512;       ///< work requests one doorbell or poll executes
constexpr uint64_t kBytesPerRun = 64ull << 20;  ///< bytes one doorbell or poll moves
constexpr uint64_t kPacedMaxNs = 10'000'000;    ///< between two looks at a rate limit
constexpr uint32_t kUnansweredMbps = 10'000;    ///< of UC to other hosts

}  // namespace

Requester::Requester(Engine& engine, QueuePair& qp)
    : engine_(engine),
      qp_(qp),
      offered_(offered_by(qp.type())),
      length_max_(longest_of(qp.type())),
      connected_(qp.type() != QpType::kUd && qp.type() != QpType::kRaw),
      reliable_(is_reliable(qp.type())),
      dynamic_(qp.type() == QpType::kDci),
      xrc_(qp.type() == QpType::kXrcSend) {
  while (window_max_ < qp.spec().send_entries) window_max_ *= 2;
  if (dynamic_) initiator_ = std::make_unique<Initiator>();
}

void Requester::connect(uint32_t first_psn) {
  first_psn_ = next_psn_ = ring_psn_ = first_psn;
  peer_verified_ = is_wire_ = false;
  channel_ = nullptr;
  measured_ = {};
  behind_ = 0;
  flight_ = {};
  flight_.end_psn = first_psn;
}

void Requester::reset() {
  disconnect();
  peer_ = {};
  if (initiator_) initiator_->failed_streams.clear();
  index_ = sent_bytes_ = sent_until_ = 0;
  window_head_ = window_count_ = reads_ = 0;
  in_message_ = key_failed_ = false;
  rnr_until_ns_ = retry_at_ns_ = paced_until_ns_ = 0;
  rnr_tries_ = lost_tries_ = 0;
  connect(0);
}

void Requester::ring() {
  AccessScope scope;
  std::lock_guard<SpinLock> hold(lock_);
  if (!is_wire_) {
    if (qp_.responder().left_alone()) qp_.responder().note_send();
    return run_locked();
  }
  ring_wire();
}

void Requester::ring_wire() {
  if (gathers()) return engine_.schedule_quietly(qp_);
  const uint32_t before = next_psn_;
  engine_.note_program_sends(true);
  {
    wire::Burst burst;
    run_locked();
    if (reliable_ && next_psn_ != before) qp_.responder().note_send();
  }
  engine_.note_program_sends(false);
}

void Requester::run() {
  AccessScope scope;
  std::lock_guard<SpinLock> hold(lock_);
  run_locked();
}

void Requester::run_locked() {
  const QpState state = qp_.state();
  if (state == QpState::kError || state == QpState::kSqe) {
    flush();
    return;
  }
  if (!is_wire_ && reliable_) [[likely]]
    return run_queue();
  wire::Burst burst;
  run_queue();
}

void Requester::run_queue() {
  flight_.rung = 0;
  budget_bytes_ = kBytesPerRun;
  stalled_ = true;
  uint32_t left = kRequestsPerRun;
  uint32_t next = 0;
  while (left > 0 && budget_bytes_ > 0 && advance(next) == Step::kAgain) {
    left--;
    if (!last_rung_ || index_ != next || key_failed_) continue;
    stalled_ = false;  // as if more had been looked for
    break;
  }
  if (left == 0 || budget_bytes_ == 0) engine_.schedule(qp_);
  note_rest();
}

// After a reply: a queue that had run empty stays so until the next doorbell.
void Requester::go_on() {
  if (stalled_ || key_failed_)
    run_locked();
  else
    note_rest();
}

void Requester::on_key_error(uint32_t key, DataTransform& transform) {
  key_failed_ = true;
  qp_.spec().send->on_key_error(key, transform);
}

// Before what follows the message whose bytes did not verify.
bool Requester::must_drain() {
  key_failed_ = false;
  if (!qp_.drains_on_key_errors() || qp_.state() != QpState::kRts) return false;
  qp_.drain_by_itself();
  was_busy_ = true;  // so that coming to rest is noted even if it has come already
  return true;
}

void Requester::note_rest() {
  const bool busy = !idle();
  if (was_busy_ && !busy && qp_.state() == QpState::kSqd) qp_.note_drained();
  was_busy_ = busy;
}

// `next`: the index of the entry after the one that it looked at.
inline Requester::Step Requester::advance(uint32_t& next) {
  const QpState state = qp_.state();
  // What has begun is finished before the queue rests.
  if (state != QpState::kRts && !(state == QpState::kSqd && (in_message_ || repeating()))) return Step::kStop;
  if (key_failed_ && !in_message_ && must_drain()) return Step::kStop;
  if ((rnr_until_ns_ | retry_at_ns_) != 0) return Step::kStop;
  if (window_count_ >= window_mask_ + 1 && !in_message_ && behind_ == 0 && !grow_window()) return Step::kStop;

  Message message;
  message.index = index_;
  const char* why = nullptr;
  switch (qp_.spec().send->fetch(index_, message.work, message.next_index, why)) {
    case SendQueue::Fetch::kNone:
      stalled_ = false;
      return Step::kStop;
    case SendQueue::Fetch::kBad:
      last_rung_ = false;
      return fail_local(index_, message.next_index, message.work, Status::kLocalQpOperation, why);
    case SendQueue::Fetch::kWork:
      break;
  }
  next = message.next_index;
  last_rung_ = message.work.last;
  if (rate_limit_ && paced()) return Step::kStop;
  const Opcode opcode = message.work.opcode;
  if (!in_message_ && is_local(opcode)) return finish_local_only(message);
  if (Step step{}; dynamic_ && !meets_target(message, step)) return step;
  if (message.work.fence && reads_ > 0 && !in_message_ && behind_ == 0) return Step::kStop;
  if (Status status = check(message, why); status != Status::kSuccess)
    return fail_local(message.index, message.next_index, message.work, status, why);
  if ((behind_ > 0 && !is_as_before(message)) ||
      (in_message_ && (opcode != begun_opcode_ || message.length != begun_bytes_)))
    return fail_local(message.index, message.next_index, message.work, Status::kLocalQpOperation,
                      "the work queue entry was changed while its message was under way");
  if (awaits_response(opcode) && reads_ >= qp_.attributes().max_rd_atomic && !in_message_ && behind_ == 0)
    return Step::kStop;
  if (connected_) [[likely]]
    return send_connected(message);
  if (opcode == Opcode::kSegmentedSend) return send_segments(message);
  return qp_.type() == QpType::kRaw ? send_frame(message) : send_datagram(message);
}

void Requester::pace(std::shared_ptr<RateLimit> limit) {
  std::lock_guard<SpinLock> hold(lock_);
  rate_limit_ = std::move(limit);
}

bool Requester::paced() {
  const uint64_t free_at_ns = rate_limit_->free_at_ns(), now_ns = engine_.clock().now_ns();
  // Not for long: the limit may be lifted meanwhile.
  paced_until_ns_ = free_at_ns > now_ns ? std::min(free_at_ns, now_ns + kPacedMaxNs) : 0;
  if (paced_until_ns_ != 0) watch(paced_until_ns_);
  return paced_until_ns_ != 0;
}

void Requester::charge(uint64_t bytes) {
  if (rate_limit_) rate_limit_->charge(bytes, engine_.clock().now_ns());
}

Requester::Step Requester::finish_local_only(Message& message) {
  if (behind_ > 0) [[unlikely]]
    return pass_again(message);
  if (message.work.fence && reads_ > 0) return Step::kStop;
  if (message.work.opcode != Opcode::kNop && !repeating()) {
    Status status = Status::kSuccess;
    const char* why = nullptr;
    switch (qp_.spec().send->perform(message.index, window_count_ > 0, status, why)) {
      case SendQueue::Performed::kDone:
        break;
      case SendQueue::Performed::kLater:
        return Step::kStop;
      case SendQueue::Performed::kFailed:
        return fail_local(message.index, message.next_index, message.work, status, why);
    }
  }
  if (window_count_ > 0) {
    message.packets = 0;
    record(message, true);
  } else {
    complete(message.index, message.work.opcode, message.work.signaled, Status::kSuccess, 0);
  }
  index_ = message.next_index;
  return Step::kAgain;
}

Status Requester::check(Message& message, const char*& why) {
  const SendWork& work = message.work;
  if (!(offered_ >> static_cast<uint8_t>(work.opcode) & 1)) {
    why = "the operation is not offered by this service type";
    return Status::kLocalQpOperation;
  }
  if (awaits_response(work.opcode) && qp_.attributes().max_rd_atomic == 0) {
    why = "max_rd_atomic is 0: no read, atomic or flush may be outstanding";
    return Status::kLocalQpOperation;
  }
  const uint32_t need = brings_data(work.opcode) ? static_cast<uint32_t>(kLocalWrite) : 0u;
  uint64_t length = 0;
  for (uint32_t i = 0; i < work.sge_count; i++) {
    const Sge& sge = work.sges[i];
    if (sge.length == 0) continue;
    wire::Piece& piece = message.pieces[message.count];
    if (work.inline_mask >> i & 1)
      piece = {reinterpret_cast<void*>(sge.address), sge.length};
    else if ((why = engine_.keys().translate(sge.lkey, qp_.spec().domain, need, sge.address, sge.length,
                                             piece, qp_.number())))
      return Status::kLocalProtection;
    message.scattered |= piece.length != sge.length;
    message.count++;
    length += sge.length;
  }
  if (length > length_max_ || !has_any_length(work.opcode)) [[unlikely]]
    if ((why = wrong_length(work, length, length_max_))) return Status::kLocalLength;
  message.length = static_cast<uint32_t>(length);
  message.packets = is_atomic(work.opcode) ? 1 : packets_of(message.length, qp_.attributes().path_mtu);
  return Status::kSuccess;
}

Requester::Step Requester::fail_local(uint32_t index, uint32_t next, const SendWork& work, Status status,
                                      const char* why) {
  // Completions keep queue order: those before it end first. One that had begun is itself the window's
  // newest.
  const bool begun = in_message_ && window_count_ > 0;
  if (window_count_ - behind_ > (begun ? 1u : 0u)) return Step::kStop;
  window_count_ = behind_ = 0;
  engine_.explain(qp_.number(), static_cast<int>(status), index, why);
  index_ = next;
  sent_bytes_ = 0;
  in_message_ = false;
  if (dynamic_ && survives(work.destination.stream)) {
    complete(index, work.opcode, true, status, 0);
    go_on_after_failure();
    return Step::kAgain;
  }
  qp_.enter_error(reliable_ ? QpState::kError : QpState::kSqe);
  complete(index, work.opcode, true, status, 0);
  flush();
  return Step::kStop;
}

inline wire::Channel* Requester::channel() {
  if (qp_.spec().port->down.load(std::memory_order_relaxed)) [[unlikely]]
    lose_channel();
  if (!channel_) {
    channel_ = find_way(engine_.fabric(), *qp_.spec().port, peer_.place);
    is_wire_ = channel_ && channel_->is_wire();
    measured_ = {};
    // Nobody tells when a receiver's socket has no room left, which takes some megabytes.
    if (is_wire_ && qp_.type() == QpType::kUc && !rate_limit_) {
      rate_limit_ = std::make_shared<RateLimit>();
      rate_limit_->set_mbps(kUnansweredMbps);
    }
  }
  return channel_;
}

inline Requester::Step Requester::send_connected(Message& message) {
  wire::Channel* way = channel();
  if (!way) {
    if (!reliable_) return after_message(message);  // as if every packet was lost
    note_lost();
    return Step::kStop;
  }
  if (is_wire_) [[unlikely]]
    return send_on_wire(message);
  const bool one_sided = is_write(message.work.opcode) || message.work.opcode == Opcode::kRead;
  if (one_sided && window_count_ == 0 && !in_message_ && try_direct(message)) {
    if (is_write(message.work.opcode)) charge(message.length);
    if (message.work.opcode != Opcode::kWriteImmediate) {
      next_psn_ = wire::psn_add(next_psn_, message.packets);
      lost_tries_ = 0;
      return after_message(message);
    }
    message.placed = true;
  }
  return send_pieces(message);
}

Requester::Step Requester::after_message(Message& message) {
  index_ = message.next_index;
  sent_bytes_ = 0;
  in_message_ = false;
  budget_bytes_ -= std::min<uint64_t>(budget_bytes_, message.length);
  complete(message.index, message.work.opcode, message.work.signaled, Status::kSuccess, message.length);
  return Step::kAgain;
}

// False: it is as long as the queue, or there is no memory; then there is room when something has ended, or
// another doorbell looks again.
bool Requester::grow_window() {
  const uint32_t entries = window_mask_ + 1;
  if (entries == window_max_) return false;
  const uint32_t wanted = entries == 0 ? std::min(window_max_, kWindowAtFirst) : 2 * entries;
  std::unique_ptr<Outstanding[]> longer(new (std::nothrow) Outstanding[wanted]);
  if (!longer) return false;
  const uint32_t mask = wanted - 1;
  for (uint32_t i = window_head_; i != window_head_ + window_count_; i++)
    longer[i & mask] = window_[i & window_mask_];
  window_ = std::move(longer);
  window_mask_ = mask;
  return true;
}

// For every message: the last one was mostly like it.
inline void Requester::count_exchange(Opcode opcode, uint32_t bytes) {
  if (opcode != measured_.opcode || bytes != measured_.bytes) [[unlikely]]
    measure(opcode, bytes);
  if (!measured_.same_port) [[unlikely]]
    return count_on_other_port();
  PublishedTraffic& traffic = qp_.traffic();
  add_to(traffic.sent_bytes, traffic.sent_packets, measured_.both);
  add_to(traffic.returned_bytes, traffic.returned_packets, measured_.both);
  if (measured_.operations) add_to(traffic.*measured_.operations, 1);
}

void Requester::complete(const SendCompletion& done) {
  PublishedQp& counters = qp_.published();
  if (done.status == Status::kSuccess) [[likely]] {
    constexpr auto relaxed = std::memory_order_relaxed;
    counters.send_messages.store(counters.send_messages.load(relaxed) + 1, relaxed);
    counters.send_bytes.store(counters.send_bytes.load(relaxed) + done.bytes, relaxed);
    if (!is_wire_) count_exchange(done.opcode, done.bytes);
  } else {
    count_failure(done.status);
  }
  qp_.spec().send->complete(done);
}

}  // namespace verbatim::engine
