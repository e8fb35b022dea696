// SPDX-License-Identifier: MIT
#pragma once

#include "device/connectx/objects.h"
#include "device/connectx/prm/raw_queue.h"

namespace verbatim::connectx {

/// A receive or send queue without a queue pair. Nothing takes its entries yet; when it fails, those posted
/// to a receive queue that asked for it complete with an error.
class RawQueue final : public prm::RawQueueBody {
 public:
  /// The doorbell record may vanish at any time: it is a program's memory.
  RawQueue(const prm::RawQueueSpec& spec, const uint32_t* doorbell, CqObject& cq)
      : spec_(spec), doorbell_(doorbell), cq_(cq) {}
  void enter(prm::RqState state, uint32_t number) override;

 private:
  void flush(uint32_t number);

  const prm::RawQueueSpec spec_;
  const uint32_t* doorbell_;
  CqObject& cq_;
  uint32_t taken_ = 0;
};

}  // namespace verbatim::connectx
