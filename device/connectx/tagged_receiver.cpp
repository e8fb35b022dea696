// SPDX-License-Identifier: MIT
#include "device/connectx/tagged_receiver.h"

#include "device/connectx/objects.h"

namespace verbatim::connectx {

void TaggedReceiver::start(engine::Engine& engine, engine::QueuePair& queue_pair, uint32_t qpn) {
  engine_ = &engine;
  queue_pair_ = &queue_pair;
  qpn_ = qpn;
  reads_.set_qpn(qpn);
}

engine::ReceiveQueue::Take TaggedReceiver::take(engine::ReceiveWork& work, const char*& reason) {
  plain_ = true;
  return tags_.untagged().take(work, reason);
}

engine::ReceiveQueue::Take TaggedReceiver::take_for(const engine::MessageHead& head,
                                                    engine::ReceiveWork& work, const char*& reason) {
  plain_ = false;
  return tags_.take(head, qpn_, offloads_, work, match_, reason);
}

void TaggedReceiver::complete(const engine::ReceiveCompletion& done) {
  const bool succeeded = done.status == engine::Status::kSuccess;
  if (plain_ || !match_.of_list()) {
    const uint32_t application = plain_ || !succeeded ? 0 : tag_application(match_.event, 0);
    push_receive(tags_.completions(), done, tags_.user_index(), application);
    return;
  }
  if (!succeeded) return tags_.complete(match_, kTagCanceled, qpn_, 0, nullptr);
  if (match_.rendezvous && match_.event != kTagConsumedForProgram) {
    reads_.add(match_);
    engine_->schedule(*queue_pair_);
    return;
  }
  const bool immediate = done.opcode == engine::Opcode::kSendImmediate;
  tags_.complete(match_, match_.told ? kTagDataPlaced : match_.event, qpn_, done.bytes,
                 immediate ? &done.immediate : nullptr);
}

}  // namespace verbatim::connectx
