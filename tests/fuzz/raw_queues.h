// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "device/connectx/formats.h"
#include "device/hw/hca.h"
#include "tests/fuzz/random.h"

namespace verbatim::fuzz {

/// Memory that a device may be told of.
struct Memory {
  std::byte* base = nullptr;
  size_t bytes = 0;
  hw::Mr* mr = nullptr;
  bool mapped = false;
};

/// What a peer may be told of.
struct Target {
  uint64_t address = 0;
  uint32_t bytes = 0, rkey = 0, qpn = 0;
};

/// A queue pair with completion queues whose memory is written by hand, mostly with nonsense.
class RawQueues {
 public:
  static constexpr uint32_t kBlocks = 64, kReceives = 32, kCompletions = 128, kReceiveStride = 64;

  RawQueues(hw::Hca& hca, hw::Pd* pd, hw::QpType type, bool shared_receive, Random& random);
  ~RawQueues();
  RawQueues(const RawQueues&) = delete;
  RawQueues& operator=(const RawQueues&) = delete;

  uint32_t qpn() const { return qp_->number; }
  /// Any state to ready to send, towards `peer`. With `odd`, with attributes that need not make sense.
  void connect(const Target& peer, bool odd);
  void reset();

  /// Posts up to `count` send entries; each is plausible, plausible with damage, or noise.
  void post_sends(uint32_t count, const std::vector<Memory>& memories, const Target& peer);
  void post_receives(uint32_t count, const std::vector<Memory>& memories);
  void damage_doorbells();
  void damage_queues();
  /// Takes completions as a program would.
  uint32_t take_completions();
  /// Completions taken so far, by kind of entry.
  const uint64_t (&taken() const)[16] { return taken_; }
  void arm();
  void resize();
  /// A plain send from `from` to `to` arrives; both were reset and connected without oddities.
  static bool exchange(RawQueues& from, RawQueues& to, const Memory& memory);

 private:
  void build_send(uint32_t index, uint32_t& units, const std::vector<Memory>& memories, const Target& peer);
  void write_units(uint32_t index, uint32_t unit, const void* data, uint32_t units);
  connectx::DataSegment data_segment(const std::vector<Memory>& memories);
  void post_one_receive(const std::vector<Memory>& memories);

  hw::Hca& hca_;
  Random& random_;
  const hw::QpType type_;
  alignas(64) uint32_t qp_doorbell_[2] = {};
  alignas(64) uint32_t cq_doorbell_[2] = {};
  alignas(64) uint32_t srq_doorbell_[2] = {};
  std::vector<std::byte> send_, receive_, completions_, spare_completions_;
  uint64_t taken_[16] = {};
  uint32_t completion_entries_ = kCompletions;
  uint32_t send_counter_ = 0, receive_counter_ = 0, consumed_ = 0;
  hw::Cq* cq_ = nullptr;
  hw::Srq* srq_ = nullptr;
  hw::Qp* qp_ = nullptr;
};

}  // namespace verbatim::fuzz
