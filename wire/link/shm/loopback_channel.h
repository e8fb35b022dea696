// SPDX-License-Identifier: MIT
#pragma once

#include "wire/link/channel.h"
#include "wire/link/shm/layout.h"
#include "wire/link/tap/tap.h"

namespace verbatim::wire::shm {

/// The way to queue pairs of the same process: requests are delivered on the calling thread and answered at
/// once.
class LoopbackChannel final : public Channel {
 public:
  /// `tap`: for who captures packets, or nullptr.
  LoopbackChannel(Receiver& receiver, const std::byte* published, PublishedPrefix& prefix,
                  AccessCounters& counters, tap::Tap* tap)
      : receiver_(receiver), published_(published), prefix_(prefix), counters_(counters), tap_(tap) {}

  uint32_t payload_max(bool) const override { return kMessageBytesMax; }
  SendResult send(const Segment& segment, const Piece* pieces, uint32_t count, bool may_pull,
                  Segment* answer) override;
  void forbid_pull() override {}
  bool alive() override { return true; }
  bool lossless() const override { return true; }
  void nudge() override {}
  const std::byte* published() const override { return captured() ? nullptr : published_; }
  const std::byte* testament() const override { return published_; }
  uint32_t enter_access() override;
  void leave_access(uint32_t ticket) override;
  bool write_direct(uint64_t remote, const Piece* pieces, uint32_t count) override;
  bool read_direct(uint64_t remote, const Piece* pieces, uint32_t count) override;
  void note_answer(const Segment& answer, const Piece* pieces, uint32_t count) override;

 private:
  bool captured() const { return tap_ && tap_->captures(); }

  Receiver& receiver_;
  const std::byte* published_;
  PublishedPrefix& prefix_;
  AccessCounters& counters_;
  tap::Tap* const tap_;
};

}  // namespace verbatim::wire::shm
