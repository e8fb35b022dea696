// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "device/connectx/formats.h"
#include "device/hw/hca.h"
#include "tests/fuzz/memories.h"
#include "tests/fuzz/random.h"

namespace verbatim::fuzz {

/// Sizes and kinds of a set of queues.
struct Shape {
  hw::QpType type = hw::QpType::kRc;
  uint32_t blocks = 64, receives = 32, receive_stride = 64, completions = 128, completion_stride = 64;
  bool shared_receive = false, ignore_overrun = false;
  bool cyclic = false, bare = false;  ///< of a shared receive queue
  bool revocable = false;             ///< as memory that commands name
  uint32_t noise = 0;                 ///< in queue entries: 0 none, 1 most of all, more the less

  static Shape any(hw::QpType type, Random& random);
};

/// How work requests of one opcode have ended.
struct Ends {
  uint64_t done = 0, failed = 0, flushed = 0;
};

/// Completions by kind of entry, and those of sends by opcode.
struct Taken {
  static constexpr size_t kOpcodes = 64;
  uint64_t kinds[16] = {};
  Ends sends[kOpcodes];
  Taken& operator+=(const Taken& more);
};

/// A queue pair with its completion and receive queues, whose memory is written by hand, mostly with
/// nonsense. Each queue's memory ends with the queue, so that a sanitizer sees a step beyond. One thread.
class RawQueues {
 public:
  RawQueues(hw::Hca& hca, hw::Pd* pd, const Shape& shape, Random& random);
  ~RawQueues();
  RawQueues(const RawQueues&) = delete;
  RawQueues& operator=(const RawQueues&) = delete;

  /// Where others send to: of a DC initiator the number of its target.
  uint32_t qpn() const { return target_ ? target_->number : qp_->number; }
  static constexpr uint64_t kAccessKey = 0x0123456789abcdef;  ///< of DC targets
  static constexpr uint32_t kStreams = 4;                     ///< of DC initiators
  /// The multicast group that all datagram queue pairs join.
  static Gid fuzz_group();
  /// Any state to ready to send, towards `peer`. With `odd`, with attributes that need not make sense.
  void connect(uint32_t peer_qpn, bool odd);
  void reset();
  /// A transition that may be refused, e.g. to SQD or ERR in the midst of traffic.
  void shove();

  /// Posts up to `count` send entries; each is plausible, plausible with damage, or noise.
  void post_sends(uint32_t count, Memories& memories, const Target& peer);
  void post_receives(uint32_t count, Memories& memories);
  void damage_doorbells();
  void damage_queues();
  /// Takes completions as a program would.
  uint32_t take_completions();
  /// Completions taken so far.
  const Taken& taken() const { return taken_; }
  void arm();
  /// Another size of the completion queue, smaller ones included; the old memory is given back at once.
  void resize();
  /// A plain send from `from` to `to` arrives; both were just made and connected without oddities.
  static bool exchange(RawQueues& from, RawQueues& to, const Memory& memory);

 private:
  uint32_t build_send(uint32_t index, Memories& memories, const Target& peer);
  uint32_t build_address(uint32_t index, uint32_t unit, const Target& peer);
  uint32_t build_remote(uint32_t index, uint32_t unit, uint8_t opcode, const Target& peer);
  uint32_t build_update(uint32_t index, uint32_t unit, Memories& memories, uint32_t which);
  uint32_t build_formats(uint32_t index, uint32_t unit, const Memories& memories, uint32_t octowords);
  uint32_t build_value(uint32_t index, uint32_t unit, const Memories& memories);
  uint32_t build_list(uint32_t index, uint32_t unit, uint32_t count, Memories& memories);
  uint32_t build_copy(uint32_t index, uint32_t unit, Memories& memories);
  uint32_t build_rare(uint32_t index, uint32_t unit, Memories& memories, const Target& peer);
  uint32_t build_inline(uint32_t index, uint32_t unit);
  void build_control(uint32_t index, uint8_t opcode, uint32_t units, uint32_t immediate);
  void write_units(uint32_t index, uint32_t unit, const void* data, uint32_t bytes);
  /// One in so many entries, the more the less noise there is.
  bool wrong(uint32_t often);
  connectx::DataSegment data_segment(Memories& memories, uint32_t most);
  void post_one_receive(Memories& memories);
  void note_completion(const std::byte* last_byte);
  void note_send(uint8_t kind, const std::byte* entry);
  void make_queues(hw::Pd* pd);
  void make_target(hw::Pd* pd);
  hw::QueueMemory memory_of(std::vector<std::byte>& bytes, uint32_t stride) const;

  hw::Hca& hca_;
  Random& random_;
  const Shape shape_;
  const uint32_t noise_;
  alignas(64) uint32_t qp_doorbell_[2] = {};
  alignas(64) uint32_t cq_doorbell_[2] = {};
  alignas(64) uint32_t srq_doorbell_[2] = {};
  std::vector<std::byte> send_, receive_, completions_;
  uint32_t completion_entries_;
  std::vector<uint8_t> opcodes_;  ///< of what was posted, by the entry's index
  Taken taken_;
  uint32_t send_counter_ = 0, receive_counter_ = 0, consumed_ = 0;
  uint32_t send_done_ = 0, receive_done_ = 0;  ///< as far as completions tell
  hw::Cq* cq_ = nullptr;
  hw::Srq* srq_ = nullptr;
  hw::Qp *qp_ = nullptr, *target_ = nullptr;
};

}  // namespace verbatim::fuzz
