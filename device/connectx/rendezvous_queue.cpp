// SPDX-License-Identifier: MIT
#include "device/connectx/rendezvous_queue.h"

#include <mutex>

namespace verbatim::connectx {

void RendezvousQueue::add(const TagMatch& match) {
  const std::lock_guard hold(lock_);
  Job& job = jobs_.emplace_back(Job{match, {match.header, match.where}});
  job.message.header.operation = kTagFinished;
}

void RendezvousQueue::reset() {
  const std::lock_guard hold(lock_);
  jobs_.clear();
  first_ = 0;
}

engine::SendQueue::Fetch RendezvousQueue::fetch(uint32_t index, engine::SendWork& work, uint32_t& next,
                                                const char*& /*reason*/) {
  const std::lock_guard hold(lock_);
  const uint32_t place = index / 2 - first_;
  if (place >= jobs_.size()) return Fetch::kNone;
  const Job& job = jobs_[place];
  next = index + 1;
  work.signaled = true;
  work.sge_count = 1;
  if (index % 2 == 0) {
    work.opcode = engine::Opcode::kRead;
    work.remote_address = job.match.where.address;
    work.rkey = job.match.where.rkey;
    work.sges[0] = job.match.buffer;
    work.sges[0].length = job.match.where.length;
    if (work.sges[0].length == 0) work.sge_count = 0;
    return Fetch::kWork;
  }
  work.opcode = engine::Opcode::kSend;
  work.fence = true;  // it says that the data is there
  work.inline_mask = 1;
  work.sges[0] = {reinterpret_cast<uint64_t>(&job.message), sizeof job.message, 0};
  return Fetch::kWork;
}

void RendezvousQueue::complete(const engine::SendCompletion& done) {
  TagMatch match;
  {
    const std::lock_guard hold(lock_);
    if (jobs_.empty()) return;
    match = jobs_.front().match;
    if (done.index % 2 != 0) {
      jobs_.pop_front();
      first_++;
      return;
    }
  }
  const bool placed = done.status == engine::Status::kSuccess;
  tags_.complete(match, placed ? kTagDataPlaced : kTagCanceled, qpn_, placed ? done.bytes : 0, nullptr);
}

}  // namespace verbatim::connectx
