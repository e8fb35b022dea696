// SPDX-License-Identifier: MIT
// The requester of a DC initiator: which target it is connected to, and its streams.
//
// A connection has a number of its own, which the target's answers repeat: what is late for a former one
// counts for nothing. Changing the target tells the former one, with which nothing is outstanding then.
#include <algorithm>
#include <cerrno>
#include <mutex>

#include "engine/engine.h"
#include "engine/message.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

// Whether the work request may go now. Else `step` says what comes of it.
bool Requester::meets_target(const Message& message, Step& step) {
  if (in_message_) return true;
  const Destination& to = message.work.destination;
  if (has_failed(to.stream)) {
    step = flush_one(message);
    return false;
  }
  const Place target{to.gid, to.lid, to.qpn, qp_.pkey()};
  if (peer_.connection != 0 && peer_.access_key == to.access_key && peer_.place == target) return true;
  if (window_count_ > 0) {
    step = Step::kStop;
    return false;
  }
  disconnect();
  peer_ = {target, engine_.next_connection(), to.access_key};
  initiator_->route = to;
  channel_ = nullptr;
  ring_psn_ = next_psn_;
  flight_.begin(next_psn_);
  return true;
}

Requester::Step Requester::flush_one(const Message& message) {
  if (window_count_ > 0) return Step::kStop;  // completions keep queue order
  index_ = message.next_index;
  complete(message.index, message.work.opcode, true, Status::kFlushed, 0);
  return Step::kAgain;
}

bool Requester::has_failed(uint16_t stream) const {
  const std::vector<uint16_t>& failed = initiator_->failed_streams;
  return std::find(failed.begin(), failed.end(), stream) != failed.end();
}

/// Notes that a stream has failed. False: they are so many now that the queue pair fails.
bool Requester::survives(uint16_t stream) {
  std::vector<uint16_t>& failed = initiator_->failed_streams;
  if (!has_failed(stream)) failed.push_back(stream);
  return failed.size() < qp_.spec().errored_streams_max;
}

uint16_t Requester::stream_of(uint32_t index) {
  SendWork work;
  work.destination.stream = 0;
  const char* unused = nullptr;
  uint32_t next = 0;
  qp_.spec().send->fetch(index, work, next, unused);
  return work.destination.stream;
}

// What was sent behind the request that failed was not carried out: it goes again, on a new connection.
void Requester::go_on_after_failure() {
  disconnect();
  peer_ = {};
  channel_ = nullptr;
  if (window_count_ > 0) rewind(oldest().first_psn);
  if (is_wire_) {
    next_psn_ = flight_.end_psn;
    window_count_ = behind_ = 0;
    flight_.silent_at_ns = 0;
  }
  in_message_ = false;
  sent_bytes_ = reads_ = 0;
  rnr_until_ns_ = retry_at_ns_ = 0;
  rnr_tries_ = lost_tries_ = 0;
  engine_.schedule(qp_);
}

// The target may not hear of it, when there is no room or the packet is lost: it forgets the connection some
// time later, then. One whose memory was used directly knows of none.
void Requester::disconnect() {
  if (peer_.connection == 0) return;
  if (channel_ && peer_.knows) {
    AccessScope scope;
    wire::Segment end;
    end.operation = wire::Operation::kDisconnect;
    end.transport = wire::Transport::kDc;
    end.dest_qpn = peer_.place.qpn;
    end.src_qpn = qp_.number();
    end.pkey = peer_.place.pkey;
    end.access_key = peer_.access_key;
    end.connection = peer_.connection;
    end.psn = end.base_psn = next_psn_;
    if (is_wire_) address_to(initiator_->route, end);
    channel_->send(end, nullptr, 0, false, nullptr);
  }
  peer_.connection = 0;
}

void Requester::part() {
  std::lock_guard<SpinLock> hold(lock_);
  disconnect();
}

Outcome Requester::reset_stream(uint16_t stream) {
  std::lock_guard<SpinLock> hold(lock_);
  if (!initiator_ || std::erase(initiator_->failed_streams, stream) == 0)
    return Error{EINVAL, "stream " + std::to_string(stream) + " has not failed"};
  return Done{};
}

}  // namespace verbatim::engine
