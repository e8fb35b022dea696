// SPDX-License-Identifier: MIT
// The checking part of an end.
#include <algorithm>
#include <cstring>

#include "testing/simulation/end.h"

namespace verbatim::simulation {

using namespace engine;

namespace {

constexpr uint8_t kUntouched = 0xee;
constexpr uint32_t kGrhBytes = 40;

std::string text(Status status) { return "status " + std::to_string(static_cast<int>(status)); }

}  // namespace

void End::fail(const std::string& what) const { findings_.fail(state() + ": " + what); }

void End::complete(const SendCompletion& completion) {
  trace_.event(host(), number_, "ends send, with status", completion.index,
               static_cast<uint64_t>(completion.status));
  if (network_.sabotage == Sabotage::kSwallowCompletion && completion.index == 0) return;
  if (is_dead()) return fail("a queue pair that is gone ends work");
  if (completion.index != ended_)
    return fail("ends send " + std::to_string(completion.index) + " out of order");
  if (completion.index >= posted_) return fail("ends what was never posted");
  ended_++;
  const Message& message = plan_.messages[completion.index];
  if (failed_) {
    if (completion.status != Status::kFlushed)
      fail("a message behind a failed one ends with " + text(completion.status));
  } else if (completion.status == Status::kSuccess) {
    if (completion.opcode != message.opcode) fail("a completion has another opcode than its message");
    check_success(message, completion.index);
  } else {
    failed_ = true;
    check_failure(completion);
  }
}

// What a completion promises is true now.
void End::check_success(const Message& message, uint32_t index) {
  if (message.flaw != Flaw::kNone)
    return fail("message " + std::to_string(index) + " succeeds, and must not");
  if (message.opcode == Opcode::kKeyUpdate && performed_[index] != 1)
    return fail("a local operation was carried out " + std::to_string(performed_[index]) + " times");
  if (!is_reliable(plan_.type)) return;
  if (message.is_two_sided() && peer_->arrivals_[index] != 1)
    return fail("message " + std::to_string(index) + " ends, and the peer has it " +
                std::to_string(peer_->arrivals_[index]) + " times");
  if (message.is_write() &&
      std::memcmp(&peer_->target_.bytes[message.target], &source_.bytes[message.source], message.length) != 0)
    return fail("write " + std::to_string(index) + " ends, and its bytes are not there");
  if (message.is_atomic()) check_atomic(message, index);
  if (message.opcode != Opcode::kRead) return;
  const uint8_t* there = message.reread ? &source_.bytes[plan_.messages[message.reread - 1].source]
                                        : &peer_->source_.bytes[message.source];
  if (std::memcmp(&landing_.bytes[message.landing], there, message.length) != 0)
    fail("read " + std::to_string(index) + " has other bytes than were there");
}

void End::check_atomic(const Message& message, uint32_t index) {
  uint64_t original = 0;
  std::memcpy(&original, &landing_.bytes[message.landing], sizeof original);
  if (original != plan_.counter_before(index))
    fail("atomic " + std::to_string(index) + " found a value that was not there");
}

void End::check_failure(const SendCompletion& completion) {
  const Message& message = plan_.messages[completion.index];
  if (!is_reliable(plan_.type) && given_up_) return;
  if (!is_reliable(plan_.type))
    return fail("a message of an unreliable service fails with " + text(completion.status));
  if (!is_excused(message, completion.status))
    fail("message " + std::to_string(completion.index) + " fails without a reason, with " +
         text(completion.status));
}

// A request of the peer, or the program, may have put this queue pair into the error state.
bool End::may_be_broken() const {
  for (uint32_t i = 0; i < peer_->begun_; i++)
    if (const Flaw flaw = peer_->plan_.messages[i].flaw; flaw != Flaw::kNone && flaw != Flaw::kWrongLocalKey)
      return true;
  return given_up_;
}

// Whether there is a reason for a message to be the first that fails, and this the status for it.
bool End::is_excused(const Message& message, Status status) const {
  const bool peer_gone = peer_->is_dead() || peer_->may_be_broken() || peer_->failed_;
  switch (status) {
    case Status::kLocalProtection:
      return message.flaw == Flaw::kWrongLocalKey;
    case Status::kRemoteAccess:
      return message.flaw == Flaw::kWrongKey;
    case Status::kRemoteInvalidRequest:
      return message.flaw == Flaw::kTooLong || message.flaw == Flaw::kMisaligned;
    case Status::kRetryExceeded:
      // The refusal of a flawed message, and what a read before it still lacks, may have been lost.
      return peer_gone || network_.lost(host(), peer_->host()) > limits_.retry_count;
    case Status::kRnrRetryExceeded:
      return limits_.rnr_retry < 7 &&
             peer_->empty_takes_ + network_.doubled(host(), peer_->host()) > limits_.rnr_retry &&
             peer_->empty_takes_ > 0;
    case Status::kFlushed:
      return may_be_broken();
    default:
      return false;
  }
}

void End::complete(const ReceiveCompletion& completion) {
  trace_.event(host(), number_, "ends receive, with status", completion.index,
               static_cast<uint64_t>(completion.status));
  if (is_dead()) return fail("a queue pair that is gone ends a receive request");
  if (completion.index != receives_ended_ || completion.index >= receives_taken_)
    return fail("receive " + std::to_string(completion.index) + " ends out of order");
  receives_ended_++;
  if (completion.status != Status::kSuccess) return check_failed_receive(completion);
  if (refused_) return fail("a receive succeeds after a failed one");
  check_received(completion);
  if (network_.sabotage == Sabotage::kTwoReceives && !sabotaged_) {
    sabotaged_ = true;
    check_received(completion);
  }
}

void End::check_failed_receive(const ReceiveCompletion& completion) {
  const bool refused = completion.status == Status::kLocalLength;
  const bool too_long = std::any_of(peer_->plan_.messages.begin(), peer_->plan_.messages.end(),
                                    [](const Message& message) { return message.flaw == Flaw::kTooLong; });
  if (refused && !too_long) fail("a receive request is called too short, and is not");
  if (!refused && completion.status != Status::kFlushed)
    fail("a receive request ends with " + text(completion.status));
  refused_ |= refused;
}

// The message of the peer that a receive request must have ended with; nullptr: there is none.
const Message* End::find_message(const ReceiveCompletion& completion) {
  const std::vector<Message>& all = peer_->plan_.messages;
  if (!is_reliable(plan_.type)) {
    const uint32_t number = completion.immediate;
    const bool late = plan_.type == QpType::kUc && number < next_two_sided_;
    if (number >= all.size() || late) return nullptr;
    next_two_sided_ = number + 1;
    arrivals_[number]++;
    return &all[number];
  }
  while (next_two_sided_ < all.size() && !all[next_two_sided_].is_two_sided()) next_two_sided_++;
  if (next_two_sided_ == all.size()) return nullptr;
  arrivals_[next_two_sided_]++;
  return &all[next_two_sided_++];
}

void End::check_received(const ReceiveCompletion& completion) {
  const Message* message = find_message(completion);
  if (!message) return fail("something is received that was never sent, a second time, or out of order");
  if (static_cast<size_t>(message - peer_->plan_.messages.data()) >= peer_->posted_)
    return fail("a message is received before it was posted");
  received_++;
  if (completion.opcode != message->opcode) return fail("a message is received as another operation");
  if (message->opcode != Opcode::kSend && completion.immediate != message->immediate)
    return fail("the immediate data is another message's");
  if (completion.src_qpn != peer_->number_ || completion.qpn != (receiver_ ? receiver_number_ : number_))
    return fail("a message says that other queue pairs sent or received it");
  if (completion.solicited != message->solicited)
    return fail("a message is solicited and is not, or the reverse");
  check_bytes(*message, completion);
}

void End::check_bytes(const Message& message, const ReceiveCompletion& completion) {
  const uint32_t grh = plan_.type == QpType::kUd ? kGrhBytes : 0;
  if (completion.bytes != message.length + grh) return fail("a message is received with another length");
  if (grh && (completion.src_qpn != peer_->number_ || !completion.has_grh))
    return fail("a datagram does not say where it comes from");
  const uint8_t* there = message.is_send() ? &inbox_.bytes[size_t{completion.index} * capacity_ + grh]
                                           : &target_.bytes[message.target];
  if (std::memcmp(there, &peer_->source_.bytes[message.source], message.length) != 0)
    fail("a message is received with other bytes");
  if (!message.is_send()) return;
  const uint8_t* behind = there + message.length;
  const uint8_t* end = &inbox_.bytes[size_t{completion.index} * capacity_] + capacity_;
  // Parts of messages that never came to their end may lie there.
  if (is_reliable(plan_.type) && std::any_of(behind, end, [](uint8_t byte) { return byte != kUntouched; }))
    fail("bytes behind a received message were written");
}

bool End::may_be_written(uint32_t message) const {
  return plan_.messages[message].flaw == Flaw::kNone && message < begun_;
}

// The memory that the peer writes to.
void End::check_target() const {
  std::vector<bool> known(target_.bytes.size());
  for (uint32_t i = 0; i < peer_->plan_.messages.size(); i++) {
    const Message& message = peer_->plan_.messages[i];
    if (!message.is_write() || !peer_->may_be_written(i)) continue;
    const bool done = is_reliable(plan_.type) &&
                      (i + 1 < peer_->ended_ || (i < peer_->ended_ && !peer_->failed_)) && !peer_->failed_;
    for (uint32_t at = 0; at < message.length; at++) {
      const uint8_t byte = target_.bytes[message.target + at];
      known[message.target + at] = true;
      if (byte == peer_->source_.bytes[message.source + at] || (!done && byte == kUntouched)) continue;
      return fail("byte " + std::to_string(at) + " of write " + std::to_string(i) + " is wrong");
    }
  }
  for (size_t at = 0; at < known.size(); at++)
    if (!known[at] && target_.bytes[at] != kUntouched)
      return fail("byte " + std::to_string(at) + " was written by nobody's message");
}

// What the peer's atomics have made of the counter: all that have ended were carried out, once, and maybe
// some more.
void End::check_counter() const {
  uint64_t value = 0;
  std::memcpy(&value, counter_.bytes.data(), sizeof value);
  const uint32_t least = peer_->failed_ || peer_->is_dead() ? 0 : peer_->ended_;
  for (uint32_t done = least; done <= std::max(peer_->begun_, least); done++)
    if (value == peer_->plan_.counter_before(done)) return;
  fail("the counter is not what the atomics make of it");
}

void End::check_memory() const {
  check_target();
  check_counter();
  const uint32_t open = receives_posted_ - receives_ended_;
  if (is_reliable(plan_.type) && !peer_->failed_ && !peer_->is_dead() && !failed_ && !may_be_broken() &&
      !is_dead() && peer_->is_finished() && open > 0)
    fail("receive requests are left over");
}

void End::close() {
  if (is_dead()) return;
  put_into_error();
  host_.run();
  if (plan_.shared && last_receives_ == 0) fail("nobody was told that the last receive request has ended");
  if (!plan_.shared && receives_ended_ != receives_posted_) fail("receive requests were not flushed");
  if (receives_ended_ != receives_taken_ && plan_.shared) fail("a receive request that was taken never ends");
  for (QueuePair* qp : {qp_, receiver_})
    if (qp) host_.engine().destroy_queue_pair(qp);
  if (receiver_)
    for (const uint32_t number : shared_queues_) host_.engine().remove_shared_queue(number);
  qp_ = receiver_ = nullptr;
}

}  // namespace verbatim::simulation
