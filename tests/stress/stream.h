// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "tests/stress/plan.h"
#include "tests/stress/rig.h"

namespace verbatim::stress {

struct Totals {
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> operations[kKinds]{};
};

/// One queue pair with its memory, on one side. The requester carries out the plan's batches on the
/// responder, which says when it is ready for the next and judges each. One thread.
class Stream {
 public:
  /// What the other side must know.
  struct Card {
    Address address;
    uint64_t memory = 0;
    uint32_t rkey = 0;
  };
  Stream(const Device& device, uint32_t number, uint64_t seed, bool sleeps);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Card card() const;
  void connect(const Card& peer);

  /// Runs batches until they have moved `bytes`; both sides stop after the same one.
  void request(uint64_t bytes, Totals& totals);
  void respond(uint64_t bytes, Totals& totals);

 private:
  std::byte* slot(uint32_t index) const { return memory_ + index * kSlotBytes; }
  uint64_t remote(const Step& step) const;
  /// Elements for parts of a slot, each under one of the two keys.
  uint32_t elements(uint32_t index, const std::vector<Part>& parts, ibv_sge* out) const;
  ibv_wc next_completion(bool receive);
  void sort_completions();
  void post_receive(uint64_t id, uint32_t index, const std::vector<Part>& parts);
  void send_note(uint64_t id, uint32_t number);

  void request_step(const Step& step, uint32_t position);
  void check_request(const Step& step, uint32_t position) const;
  void prepare(const Batch& batch);
  void post_receives(const Batch& batch);
  void take_receives(const Batch& batch);
  void judge(const Batch& batch) const;
  void expect(bool fine, const Step& step, const char* what) const;

  const Device& device_;
  const uint32_t number_;
  const bool sleeps_;
  Plan plan_;
  std::byte* memory_ = nullptr;
  ibv_mr* regions_[2] = {};
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  Card peer_;
  uint32_t batch_ = 0;
  std::deque<ibv_wc> sent_, received_;
};

}  // namespace verbatim::stress
