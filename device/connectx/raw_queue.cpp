// SPDX-License-Identifier: MIT
#include "device/connectx/raw_queue.h"

#include "base/fault_copy.h"

namespace verbatim::connectx {

void RawQueue::enter(prm::RqState state, uint32_t number) {
  if (state == prm::RqState::kRst) taken_ = 0;
  if (state == prm::RqState::kErr && spec_.flushes) flush(number);
}

void RawQueue::flush(uint32_t number) {
  uint32_t word = 0;
  if (!fault_copy(&word, &doorbell_[kReceiveDoorbell], sizeof word)) return;
  const uint32_t ready = (Be32::from_raw(word) - taken_) & 0xffff;
  if (ready > 1u << spec_.log_entries) return;
  for (uint32_t left = ready; left > 0; left--)
    cq_.ring.push_error(kCqeReceiveError, engine::Status::kFlushed, 0, number, spec_.user_index,
                        static_cast<uint16_t>(taken_++));
}

}  // namespace verbatim::connectx
